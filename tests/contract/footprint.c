/* Memory is returned to the system, does not grow over time, and does not fragment into thousands
 * of mappings. */
#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "subject.h"

#define GIB ((size_t)1024 * MIB)

struct link {
    struct link* next;
};

static struct link* burst(size_t bytes, size_t size) {
    struct link *list = NULL, *block;
    for (size_t done = 0; done < bytes; done += size) {
        CHECK((block = malloc(size)) != NULL);
        pattern_fill(block, size, 1);
        block->next = list;
        list = block;
    }
    return list;
}

static void release(struct link* list) {
    while (list) {
        struct link* next = list->next;
        free(list);
        list = next;
    }
}

// Does a few operations, like an idle program. In these calls an allocator without its own thread
// can return memory.
static void idle(unsigned milliseconds) {
    static void* blocks[50];
    for (unsigned at = 0; at < milliseconds; at += 25) {
        for (size_t i = 0; i < 50; i++) blocks[i] = malloc(2000 * i + 10);
        for (size_t i = 0; i < 50; i++) free(blocks[i]);
        sleep_ms(25);
    }
}

// An allocator may keep memory for reuse for a while, but must return it within this time.
enum { TIMEOUT_MS = 20000 };

static void check_shrinks_below(size_t bytes, void (*pass_time)(unsigned milliseconds)) {
    for (int waited = 0; waited < TIMEOUT_MS && resident_bytes() >= bytes; waited += 200)
        pass_time(200);
    size_t now = resident_bytes();
    CHECK_WITH(now < bytes, "%zu KiB, but less than %zu are expected", now / KIB, bytes / KIB);
}

static void check_given_back(size_t size) {
    size_t before = resident_bytes();
    struct link* list = burst(256u * MIB, size);
    size_t peak = resident_bytes();
    CHECK_WITH(peak >= before + 250u * MIB, "%zu KiB before, %zu KiB at the peak", before / KIB,
               peak / KIB);
    release(list);
    check_shrinks_below(before + 32u * MIB, idle);
}

TEST(a_burst_of_small_blocks_is_given_back) {
    check_given_back(100);
}
TEST(a_burst_of_medium_blocks_is_given_back) {
    check_given_back(20000);
}
TEST(a_burst_of_large_blocks_is_given_back) {
    check_given_back(700000);
}
TEST(a_burst_of_huge_blocks_is_given_back) {
    check_given_back(32u * MIB);
}

static void* burst_in_a_thread(void* argument) {
    release(burst(128u * MIB, (uintptr_t)argument));
    return NULL;
}

TEST(a_burst_in_a_thread_that_ends_is_given_back) {
    size_t before = resident_bytes();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, burst_in_a_thread, (void*)(uintptr_t)(80 + 600 * i)) ==
              0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    check_shrinks_below(before + 32u * MIB, idle);
}

struct allocation {
    size_t size;
    struct link* list;
};

static void* allocate_burst(void* argument) {
    struct allocation* allocation = argument;
    allocation->list = burst(128u * MIB, allocation->size);
    return NULL;
}

// After a thread has ended, another thread frees all its blocks.
static void check_blocks_of_an_ended_thread(size_t size) {
    struct allocation allocation = {.size = size};
    size_t before = resident_bytes();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_burst, &allocation) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    release(allocation.list);
    check_shrinks_below(before + 32u * MIB, idle);
}

TEST(small_blocks_of_a_thread_that_ended_are_given_back) {
    check_blocks_of_an_ended_thread(100);
}
TEST(medium_blocks_of_a_thread_that_ended_are_given_back) {
    check_blocks_of_an_ended_thread(9000);
}

// The program makes no further call, so only the keeper can return the memory. With `auto` the
// keeper starts when a second thread allocates.
TEST(a_program_that_only_sleeps_shrinks) {
    size_t before = resident_bytes();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, burst_in_a_thread, (void*)(uintptr_t)(80 + 600 * i)) ==
              0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    release(burst(128u * MIB, 300));
    check_shrinks_below(before + 32u * MIB, sleep_ms);
}

struct sleeper {
    struct allocation allocation;
    pthread_barrier_t allocated, over;
};

static void* allocate_and_sleep(void* argument) {
    struct sleeper* sleeper = argument;
    allocate_burst(&sleeper->allocation);
    (void)pthread_barrier_wait(&sleeper->allocated);
    (void)pthread_barrier_wait(&sleeper->over);
    return NULL;
}

// Another thread frees all blocks of a sleeping thread. Only a keeper can return their memory.
static void check_blocks_of_a_sleeping_thread(size_t size) {
    struct sleeper sleeper = {.allocation.size = size};
    size_t before = resident_bytes();
    pthread_t thread;
    CHECK(pthread_barrier_init(&sleeper.allocated, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&sleeper.over, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, allocate_and_sleep, &sleeper) == 0);
    (void)pthread_barrier_wait(&sleeper.allocated);
    release(sleeper.allocation.list);
    check_shrinks_below(before + 32u * MIB, sleep_ms);
    (void)pthread_barrier_wait(&sleeper.over);
    CHECK(pthread_join(thread, NULL) == 0);
}

TEST(small_blocks_of_a_thread_that_sleeps_are_given_back) {
    check_blocks_of_a_sleeping_thread(100);
}
TEST(blocks_of_8_bytes_of_a_thread_that_sleeps_are_given_back) {
    check_blocks_of_a_sleeping_thread(8);
}
TEST(medium_blocks_of_a_thread_that_sleeps_are_given_back) {
    check_blocks_of_a_sleeping_thread(9000);
}

TEST(a_shrunk_huge_block_gives_its_tail_back) {
    char* p = malloc(256u * MIB);
    pattern_fill(p, 256u * MIB, 1);
    CHECK((p = realloc(p, 100000)) != NULL);
    CHECK(pattern_holds(p, KIB, 256u * MIB, 1));
    check_shrinks_below(48u * MIB, idle);
    free(p);
}

static void check_cost(size_t size) {
    size_t before = resident_bytes();
    (void)burst(32u * MIB, size);
    size_t cost = resident_bytes() - before;
    // Blocks are multiples of 16 bytes; those of the secure flavour have a state word.
    size_t block = (size + (KEEL_SECURE ? 8 : 0) + 15) / 16 * 16;
    size_t owed = size < 100 ? 32u * MIB / size * block : 32u * MIB;
    // A third for sizes that are rounded up, an eighth for memory that is ready for the next
    // blocks.
    CHECK_WITH(cost < owed + owed / 3 + owed / 8 + 4u * MIB, "blocks of %zu: %zu KiB for 32 MiB",
               size, cost / KIB);
}

TEST(small_blocks_cost_little_more_than_their_size) {
    static const size_t sizes[] = {8, 16, 24, 48, 100, 200, 520, 1100, 3000, 9000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pid_t child = fork(); // a new heap for each size
        if (child == 0) {
            check_cost(sizes[i]);
            _exit(0);
        }
        CHECK_CHILD(child);
    }
}

TEST(memory_does_not_grow_over_rounds_of_the_same_work) {
    size_t early = 0, late = 0;
    for (int round = 0; round < 60; round++) {
        struct link* small = burst(8u * MIB, 64);
        struct link* mixed = NULL;
        struct random random = {7};
        for (int i = 0; i < 3000; i++) {
            struct link* block = malloc(sizeof *block + random_size(&random, 60000));
            CHECK(block != NULL);
            block->next = mixed;
            mixed = block;
        }
        // Measured before the frees, because the memory that is kept after them depends on the
        // elapsed time.
        late = resident_bytes();
        if (round == 10) early = late;
        release(small);
        release(mixed);
    }
    CHECK_WITH(late < early + 8u * MIB, "%zu KiB in round 10, %zu KiB in round 59", early / KIB,
               late / KIB);
}

// Fragmentation as in a server: each phase leaves a few blocks of its size, so little memory is
// completely free.
TEST(memory_does_not_grow_over_phases_of_different_sizes) {
    struct link* survivors = NULL;
    for (size_t phase = 0; phase < 30; phase++) {
        struct link *list = burst(16u * MIB, 48 + phase * 37), *next;
        for (size_t i = 0; list; list = next, i++) {
            next = list->next;
            if (i % 5000 != 0) {
                free(list);
                continue;
            }
            list->next = survivors;
            survivors = list;
        }
    }
    CHECK_WITH(resident_bytes() < 128u * MIB, "%zu KiB", resident_bytes() / KIB);
    release(survivors);
}

static void churn(size_t total, uint64_t seed) {
    enum { LIVE = 600 };
    static _Thread_local char* blocks[LIVE];
    struct random random = {seed};
    for (size_t done = 0; done < total;) {
        size_t i = random_below(&random, LIVE);
        size_t size = random_size(&random, random_below(&random, 300) ? 100000 : 12u * MIB);
        free(blocks[i]);
        CHECK((blocks[i] = malloc(size)) != NULL);
        blocks[i][0] = blocks[i][size - 1] = 1;
        done += size;
    }
}

static void* churn_in_a_thread(void* seed) {
    churn(4 * GIB, (uintptr_t)seed);
    return NULL;
}

TEST(churn_of_ten_gibibytes_leaves_fewer_than_200_mappings) {
    size_t before = map_count(), most = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, churn_in_a_thread, (void*)77) == 0);
    for (uint64_t part = 0; part < 12; part++) {
        churn(GIB / 2, part);
        if (map_count() > most) most = map_count();
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_WITH(most < before + 200, "%zu mappings at the most, %zu before", most, before);
}

TEST(ten_thousand_pages_freed_in_a_pattern_leave_fewer_than_200_mappings) {
    enum { COUNT = 10000 };
    static char* blocks[COUNT];
    size_t before = map_count();
    for (size_t i = 0; i < COUNT; i++) {
        CHECK((blocks[i] = malloc(20000)) != NULL);
        pattern_fill(blocks[i], 20000, i);
    }
    for (size_t i = 0; i < COUNT; i += 2) free(blocks[i]);
    idle(1500);
    CHECK_WITH(map_count() < before + 200, "%zu mappings, %zu before", map_count(), before);
    for (size_t i = 1; i < COUNT; i += 2) CHECK(pattern_holds(blocks[i], 20000, 20000, i));
}

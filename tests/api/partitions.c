// Partitions: blocks of different partitions never share an address in the secure flavour; in the
// other flavours the functions work like those without a partition.
#include "check.h"

#include <errno.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <keel/statistics.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { PARTITIONS = 4, SLICE = 65536, SLICES_KNOWN = 1 << 20, LIVE = 600, ROUNDS = 30000 };

static bool are_apart; // the flavour keeps partitions apart

static void find_flavour(void) {
    void* block = kl_partition_malloc(2, 100);
    are_apart = kl_partition_of(block) == 2;
    kl_free(block);
#if KEEL_SECURE
    CHECK(are_apart);
#else
    CHECK(!are_apart);
#endif
}

// For each slice of 64 KiB that ever had a block: its number and the partition, plus 1.
static struct {
    uintptr_t slice;
    unsigned partition;
} known[SLICES_KNOWN];

static void note_slice(uintptr_t slice, unsigned partition) {
    size_t at = (size_t)(slice * UINT64_C(0x9e3779b97f4a7c15) >> 44);
    while (known[at].partition != 0 && known[at].slice != slice) at = (at + 1) % SLICES_KNOWN;
    if (known[at].partition == 0) {
        known[at].slice = slice;
        known[at].partition = partition + 1;
    }
    CHECK_WITH(!are_apart || known[at].partition == partition + 1,
               "slice %#jx of partition %u has a block of partition %u", (uintmax_t)slice * SLICE,
               known[at].partition - 1, partition);
}

static void note(const void* block, unsigned partition) {
    CHECK(block != NULL);
    CHECK(kl_partition_of(block) == (are_apart ? partition : 0));
    uintptr_t first = (uintptr_t)block / SLICE;
    uintptr_t last = ((uintptr_t)block + kl_usable_size(block) - 1) / SLICE;
    for (uintptr_t slice = first; slice <= last; slice++) note_slice(slice, partition);
}

static uint64_t random_next(uint64_t* state) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

// Mostly small; up to 3 MiB.
static size_t random_size(uint64_t* state) {
    unsigned kind = (unsigned)(random_next(state) % 100);
    if (kind < 80) return 1 + random_next(state) % 1000;
    if (kind < 95) return 1 + random_next(state) % 60000;
    return 65000 + random_next(state) % (kind == 99 ? 3000000 : 400000);
}

// A small block, then one of these, at an alignment now and then.
static void* allocate(unsigned partition, uint64_t* state) {
    size_t size = random_size(state);
    switch (random_next(state) % 4) {
    case 0:
        return kl_partition_calloc(partition, 1, size);
    case 1:
        return kl_partition_aligned_alloc(partition, (size_t)16 << random_next(state) % 9, size);
    default:
        return kl_partition_malloc(partition, size);
    }
}

static void churn(uint64_t seed, void (*see)(const void*, unsigned)) {
    static _Thread_local struct {
        void* block;
        unsigned partition;
    } live[LIVE];
    for (int i = 0; i < ROUNDS; i++) {
        unsigned at = (unsigned)(random_next(&seed) % LIVE);
        unsigned partition = (unsigned)(random_next(&seed) % PARTITIONS);
        if (live[at].block != NULL && random_next(&seed) % 4 == 0) {
            live[at].block = kl_realloc(live[at].block, random_size(&seed));
            see(live[at].block, live[at].partition);
            continue;
        }
        kl_free(live[at].block);
        live[at].block = allocate(partition, &seed);
        live[at].partition = partition;
        see(live[at].block, partition);
        // All is freed now and then, so that pages end and their memory can be used again.
        if (i % (ROUNDS / 10) != 0) continue;
        for (int k = 0; k < LIVE; k++) {
            kl_free(live[k].block);
            live[k].block = NULL;
        }
        kl_collect(true);
    }
    for (int k = 0; k < LIVE; k++) kl_free(live[k].block);
}

TEST(no_address_ever_serves_two_partitions) {
    find_flavour();
    churn(1, note);
}

static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;
static void note_locked(const void* block, unsigned partition) {
    pthread_mutex_lock(&noting);
    note(block, partition);
    pthread_mutex_unlock(&noting);
}
static void* churn_in_thread(void* argument) {
    churn((uintptr_t)argument, note_locked);
    return NULL;
}
TEST(nor_in_several_threads) {
    find_flavour();
    pthread_t threads[3];
    for (uintptr_t round = 0; round < 2; round++) { // the second ones use the heaps of the first
        for (uintptr_t i = 0; i < 3; i++)
            CHECK(pthread_create(&threads[i], NULL, churn_in_thread, (void*)(10 * round + i)) == 0);
        for (unsigned i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void* free_blocks(void* argument) {
    void** blocks = argument;
    for (int i = 0; i < LIVE; i++) kl_free(blocks[i]);
    return NULL;
}
TEST(blocks_freed_by_another_thread_stay_in_their_partition) {
    find_flavour();
    static void* blocks[LIVE];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < LIVE; i++) {
            blocks[i] = kl_partition_malloc((unsigned)(i % PARTITIONS), 48);
            note(blocks[i], (unsigned)(i % PARTITIONS));
        }
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, free_blocks, blocks) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

// Without a collection: the heap keeps slices of pages that have ended.
TEST(pages_that_end_serve_their_partition_only) {
    find_flavour();
    enum { BLOCKS = 8000 };
    static void* blocks[BLOCKS];
    for (unsigned round = 0; round < 40; round++) {
        unsigned partition = round % PARTITIONS;
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = kl_partition_malloc(partition, 40 + 16 * round);
            note(blocks[i], partition);
        }
        for (int i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    }
}

TEST(malloc_and_new_sizes_are_in_partition_0) {
    find_flavour();
    for (size_t size = 1; size < 2000000; size += size / 3 + 1) {
        void* typed = kl_partition_malloc(3, size);
        void* block = kl_malloc(size);
        CHECK(kl_partition_of(block) == 0);
        note(typed, 3);
        note(block, 0);
        kl_free(typed);
        kl_free(block);
    }
}

TEST(a_resized_block_stays_in_its_partition) {
    find_flavour();
    static const size_t sizes[] = {1, 100, 50000, 70000, 300000, 6000000, 9000000, 200000, 64, 1};
    for (unsigned partition = 0; partition < PARTITIONS; partition++) {
        char* block = NULL;
        block = kl_partition_malloc(partition, 10);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            block = kl_realloc(block, sizes[i]);
            CHECK(block != NULL);
            CHECK_WITH(kl_partition_of(block) == (are_apart ? partition : 0), "%zu", sizes[i]);
        }
        block = kl_aligned_realloc(block, 256, 5000);
        CHECK(block != NULL && (uintptr_t)block % 256 == 0);
        CHECK(kl_partition_of(block) == (are_apart ? partition : 0));
        kl_free(block);
    }
}

TEST(calloc_is_zero_and_overflow_fails) {
    for (unsigned partition = 0; partition < PARTITIONS; partition++) {
        for (int round = 0; round < 100; round++) {
            unsigned char* block = kl_partition_calloc(partition, 10, 100);
            CHECK(block != NULL);
            for (int i = 0; i < 1000; i++) CHECK(block[i] == 0);
            memset(block, 0xff, 1000);
            kl_free(block);
        }
        errno = 0;
        CHECK(kl_partition_calloc(partition, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(kl_partition_malloc(partition, SIZE_MAX) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(kl_partition_aligned_alloc(partition, 24, 100) == NULL && errno == EINVAL);
    }
    void* block = kl_partition_malloc(PARTITIONS + 1, 100); // counts modulo 4
    CHECK(kl_partition_of(block) <= 1);
    kl_free(block);
}

TEST(sizes_are_verified_in_each_partition) {
    for (unsigned partition = 0; partition < PARTITIONS; partition++) {
        for (size_t size = 1; size < 300000; size += size / 2 + 1)
            kl_free_sized(kl_partition_malloc(partition, size), size);
        kl_free_aligned_sized(kl_partition_aligned_alloc(partition, 64, 300), 64, 300);
    }
}

TEST(tokens_of_types_with_and_without_pointers_differ) {
    CHECK(kl_partition_of_token(0) == 0);
    // -falloc-token-max=2 and 4
    CHECK(kl_partition_of_token(1) == 1);
    CHECK(kl_partition_of_token(2) == 2);
    CHECK(kl_partition_of_token(3) == 3);
    // No limit: types with pointers have the upper half.
    uint64_t seed = 5;
    unsigned found[PARTITIONS] = {0};
    for (int i = 0; i < 1000; i++) {
        size_t hash = (size_t)(random_next(&seed) << 33 ^ random_next(&seed) << 12);
        unsigned low = kl_partition_of_token((hash >> 1) | (size_t)1 << 40);
        unsigned high = kl_partition_of_token(hash | (size_t)1 << 63);
        CHECK(low == 1);
        CHECK(high == 2 || high == 3);
        found[high]++;
    }
    CHECK(found[2] > 300 && found[3] > 300);
}

static bool count_block(const struct kl_heap_area* area, void* block, void* count) {
    (void)area;
    *(size_t*)count += block != NULL;
    return true;
}
TEST(user_heaps_have_partitions_too) {
    find_flavour();
    kl_heap_t* heap = kl_heap_new();
    CHECK(heap != NULL);
    kl_heap_t* before = kl_heap_set_default(heap);
    for (unsigned i = 0; i < 400; i++)
        note(kl_partition_malloc(i % PARTITIONS, 200), i % PARTITIONS);
    size_t count = 0;
    CHECK(kl_heap_visit(heap, true, count_block, &count));
    CHECK(count == 400);
    (void)kl_heap_set_default(before);
    kl_heap_destroy(heap);
    for (unsigned i = 0; i < 400; i++)
        note(kl_partition_malloc(i % PARTITIONS, 200), i % PARTITIONS);
}

// An arena has one range of addresses, so it cannot keep partitions apart.
TEST(all_blocks_of_an_arena_are_in_one_partition) {
    find_flavour();
    kl_arena_t* arena = kl_reserve_os_memory(1 << 21, kl_memory_exclusive);
    kl_heap_t* heap = kl_heap_new_in_arena(arena);
    CHECK(heap != NULL);
    kl_heap_t* before = kl_heap_set_default(heap);
    for (unsigned i = 0; i < 2 * PARTITIONS; i++) {
        void* blocks[20];
        for (int k = 0; k < 20; k++) note((blocks[k] = kl_partition_malloc(i, 40000)), 0);
        for (int k = 0; k < 20; k++) kl_free(blocks[k]);
        kl_heap_collect(heap, true);
    }
    (void)kl_heap_set_default(before);
    kl_heap_destroy(heap);
    CHECK(kl_arena_release(arena));
}

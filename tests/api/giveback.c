/* Memory that threads leave behind is returned to the system, whether the keeper runs or not. Each
 * test waits for the memory to go back, and fails if it never does. */
#include "check.h"
#include "memory.h"

#include <keel/keel.h>
#include <keel/runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 100, CLASSES = 24, CLASS_BYTES = 64 * KIB, TIMEOUT_MS = 20000 };

static pthread_barrier_t all_used;

// Uses one class after the other, or all of them at the same time.
enum order { IN_TURN, TOGETHER };

static void allocate_class(size_t size, void** blocks) {
    for (size_t i = 0; i < CLASS_BYTES / size; i++) {
        CHECK((blocks[i] = kl_malloc(size)) != NULL);
        memset(blocks[i], 1, size);
    }
}
static void free_class(size_t size, void** blocks) {
    for (size_t i = 0; i < CLASS_BYTES / size; i++) kl_free(blocks[i]);
}

// The blocks' addresses are in a mapping of their own: libc would keep their memory.
static void use_many_classes(enum order order) {
    enum { PER_CLASS = CLASS_BYTES / 32 };
    size_t bytes = (size_t)CLASSES * PER_CLASS * sizeof(void*);
    void** blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(blocks != MAP_FAILED);
    for (size_t c = 1; c <= CLASSES; c++) {
        allocate_class(32 * c, blocks + (c - 1) * PER_CLASS);
        if (order == IN_TURN) free_class(32 * c, blocks + (c - 1) * PER_CLASS);
    }
    for (size_t c = 1; c <= CLASSES && order == TOGETHER; c++) {
        free_class(32 * c, blocks + (c - 1) * PER_CLASS);
    }
    CHECK(munmap(blocks, bytes) == 0);
}

static void* use_and_end(void* order) {
    use_many_classes(*(enum order*)order);
    (void)pthread_barrier_wait(&all_used);
    return NULL;
}

// A program that allocates little: some thousand small blocks a second.
static void work_a_little(void) {
    void* blocks[200];
    for (size_t i = 0; i < 200; i++) blocks[i] = kl_malloc(50 + i % 5 * 16);
    for (size_t i = 0; i < 200; i++) kl_free(blocks[i]);
    sleep_ms(1);
}

static void expect_at_most(size_t bytes) {
    for (int waited = 0; waited < TIMEOUT_MS && resident_bytes() > bytes; waited += 100) {
        for (int i = 0; i < 100; i++) work_a_little();
    }
    size_t now = resident_bytes();
    CHECK_WITH(now <= bytes, "%zu KiB, but at most %zu are expected", now / KIB, bytes / KIB);
}

static pthread_barrier_t may_end;

static void* use_and_sleep(void* order) {
    (void)use_and_end(order);
    (void)pthread_barrier_wait(&may_end);
    return NULL;
}

// Threads that used many size classes and now sleep, with nothing live.
static void expect_sleeping_threads_keep_little(enum order order) {
    pthread_t threads[THREADS];
    kl_free(kl_malloc(1));
    size_t before = resident_bytes();
    CHECK(pthread_barrier_init(&all_used, NULL, THREADS + 1) == 0);
    CHECK(pthread_barrier_init(&may_end, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_and_sleep, &order) == 0);
    (void)pthread_barrier_wait(&all_used);
    // Without a keeper no thread takes the eight slices that each heap keeps for its next page.
    const char* keeper = getenv("KEEL_KEEPER");
    bool kept = keeper != NULL && strcmp(keeper, "off") == 0;
    expect_at_most(before + (kept ? 80 * MIB : 40 * MIB));
    (void)pthread_barrier_wait(&may_end);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

TEST(sleeping_threads_keep_little_of_classes_in_turn) {
    expect_sleeping_threads_keep_little(IN_TURN);
}
TEST(sleeping_threads_keep_little_of_many_classes) {
    expect_sleeping_threads_keep_little(TOGETHER);
}

// Threads that used many size classes and have ended, with nothing live: their heaps still have
// current pages and bins of hundreds of blocks.
TEST(ended_threads_keep_no_memory) {
    enum order order = TOGETHER;
    pthread_t threads[THREADS];
    kl_free(kl_malloc(1));
    size_t before = resident_bytes();
    CHECK(pthread_barrier_init(&all_used, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_and_end, &order) == 0);
    (void)pthread_barrier_wait(&all_used);
    CHECK_WITH(resident_bytes() > before + 9 * MIB, "%zu KiB", (resident_bytes() - before) / KIB);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    // The metadata of the secure flavour stays: heaps with arrays for bins, and rows of queues.
    expect_at_most(before + (KEEL_SECURE ? 9 : 5) * MIB);
}

// One large block in 16 stays, so most units of 2 MiB are never wholly free. Freed in random order,
// as programs do.
TEST(memory_between_blocks_that_stay_goes_back) {
    if (kl_option_get(kl_option_keeper) == 0) return; // slow paths return a slice at a time
    enum { BLOCKS = 2048, STAYS = 16, BYTES = 128 * KIB };
    static void* blocks[BLOCKS];
    struct random random = {5};
    kl_free(kl_malloc(1));
    size_t before = resident_bytes();
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
        memset(blocks[i], 1, BYTES);
        if (i % 64 == 0) sleep_ms(1); // the keeper prepares units meanwhile
    }
    for (size_t left = BLOCKS; left > 0; left--) {
        size_t chosen = random_below(&random, left);
        void* block = blocks[chosen];
        blocks[chosen] = blocks[left - 1];
        if (left % STAYS != 0) kl_free(block);
    }
    CHECK(resident_bytes() > before + 100 * MIB);
    expect_at_most(before + BLOCKS / STAYS * BYTES * 9 / 8 + 12 * MIB);
}

// The system does not discard locked pages by the usual call. A program that frees memory without
// unlocking it must not prevent that other memory goes back.
TEST(locked_blocks_go_back) {
    enum { BLOCKS = 100000, LOCKED = 20, DONTNEED_LOCKED = 24 };
    void* probe = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (madvise(probe, 4096, DONTNEED_LOCKED) != 0) SKIP("before Linux 5.18");
    static void* blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(1000)) != NULL);
        memset(blocks[i], 1, 1000);
    }
    for (size_t i = 0; i < BLOCKS; i += BLOCKS / LOCKED) {
        if (mlock(blocks[i], 1000) != 0) SKIP("memory cannot be locked: no privilege");
    }
    CHECK(mlock(blocks[BLOCKS - 1], 1000) == 0);
    for (size_t i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    expect_at_most(24 * MIB);
}

// In the secure flavour each step moves the block's end.
TEST(a_block_that_shrinks_in_steps_gives_its_memory_back) {
    kl_free(kl_malloc(1));
    size_t before = resident_bytes();
    size_t size = 64 * MIB;
    char* block = memset(kl_malloc(size), 1, size);
    while (size > 128 * KIB) CHECK((block = kl_realloc(block, size -= 32 * KIB)) != NULL);
    expect_at_most(before + 24 * MIB);
    kl_free(block);
    const char* wide = kl_malloc(60000);
    block = (char*)wide;
    for (size = 60000; size > 2000; size = size * 9 / 10) block = kl_realloc(block, size);
    CHECK(block != wide);
    kl_free(block);
}

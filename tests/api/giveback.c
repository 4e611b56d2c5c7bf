/* Memory that threads leave behind is returned to the system, whether the keeper runs or not. Each
 * test waits for the memory to go back, and fails if it never does. */
#include "check.h"
#include "memory.h"

#include <keel/keel.h>
#include <pthread.h>
#include <string.h>

enum { THREADS = 100, CLASSES = 24, CLASS_BYTES = 64 * KIB, TIMEOUT_MS = 20000 };

static pthread_barrier_t all_used;

static void* use_many_classes(void* argument) {
    void* blocks[CLASS_BYTES / 32];
    (void)argument;
    for (size_t c = 1; c <= CLASSES; c++) {
        size_t size = 32 * c;
        size_t count = CLASS_BYTES / size;
        for (size_t i = 0; i < count; i++) {
            CHECK((blocks[i] = kl_malloc(size)) != NULL);
            memset(blocks[i], 1, size);
        }
        for (size_t i = 0; i < count; i++) kl_free(blocks[i]);
    }
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

// Threads that used many size classes and have ended, with nothing live: their heaps still have
// current pages and bins of hundreds of blocks.
TEST(ended_threads_keep_no_memory) {
    pthread_t threads[THREADS];
    kl_free(kl_malloc(1));
    size_t before = resident_bytes();
    CHECK(pthread_barrier_init(&all_used, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_many_classes, NULL) == 0);
    (void)pthread_barrier_wait(&all_used);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(resident_bytes() > before + 50 * MIB);
    expect_at_most(before + 12 * MIB);
}

// Several threads: blocks change threads, threads come and go, one only frees. Contents are
// verified on the way.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/space/run.h"
#include "base/atomic.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include <pthread.h>
#include <string.h>

enum { SLOTS = 2048, STEPS = 200000, THREADS = 4, GENERATIONS = 10 };

static atomic_word slots[SLOTS];

// Each block says its own size and is filled with what follows from it.
static void* block_make(uint64_t random) {
    size_t size = 16 + (random % 64 == 0 ? random / 64 % 300000 : random / 64 % 600);
    unsigned char* block = kl_malloc(size);
    CHECK(block != NULL);
    memcpy(block, &size, sizeof size);
    memset(block + 8, (int)(size & 0xFF), size - 8);
    return block;
}

static void block_verify_and_free(unsigned char* block) {
    size_t size;
    memcpy(&size, block, sizeof size);
    CHECK(kl_usable_size(block) >= size);
    for (size_t i = 8; i < size; i += size < 1000 ? 1 : 501) CHECK(block[i] == (size & 0xFF));
    kl_free(block);
}

static void* exchange_blocks(void* seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    for (unsigned i = 0; i < STEPS / GENERATIONS; i++) {
        uint64_t r = random_next(&random);
        void* mine = r % 3 == 0 ? NULL : block_make(r >> 8);
        void* other = (void*)atomic_swap(&slots[(r >> 40) % SLOTS], (uintptr_t)mine);
        if (other != NULL) block_verify_and_free(other);
    }
    return NULL;
}

static void* free_all(void* unused) {
    (void)unused;
    for (unsigned i = 0; i < SLOTS; i++) {
        void* block = (void*)atomic_swap(&slots[i], 0);
        if (block != NULL) block_verify_and_free(block);
    }
    return NULL;
}

static void test_generations(void) {
    uintptr_t seed = 1;
    for (unsigned generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            CHECK(pthread_create(&threads[i], NULL, exchange_blocks, (void*)seed++) == 0);
        }
        for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    kl_collect(true);
    kl_collect(true); // blocks forwarded in the first round reach their owner in the second
    CHECK(run_check());
    CHECK(run_live_slices() == 0 && run_dirty_slices() == 0);
}

static void* touch_once(void* unused) {
    (void)unused;
    return kl_malloc(100);
}

static unsigned heaps_made(void) {
    unsigned heaps = 0;
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) heaps++;
    return heaps;
}

// As many heaps as threads at one time, not as threads ever.
static void test_many_threads(void) {
    for (unsigned i = 0; i < 2000; i++) {
        pthread_t thread;
        void* block;
        CHECK(pthread_create(&thread, NULL, touch_once, NULL) == 0);
        CHECK(pthread_join(thread, &block) == 0);
        kl_free(block);
    }
    CHECK(heaps_made() <= THREADS + 2);
}

static pthread_key_t early_key; // its destructor runs before Keel's, the other one after
static pthread_key_t late_key;

static void check_allocation(void) {
    for (size_t size = 1; size < 300000; size = size * 5 + 3) {
        char* block = kl_zalloc(size);
        CHECK(block != NULL && block[0] == 0 && block[size - 1] == 0);
        memset(block, 1, size);
        block = kl_realloc(block, 2 * size);
        CHECK(block != NULL && block[0] == 1 && block[size - 1] == 1);
        kl_free(block);
        kl_free(kl_aligned_alloc(256, size));
    }
}

static void early_ends(void* value) {
    check_allocation();
    CHECK(pthread_setspecific(early_key, value) == 0);
}
static void late_ends(void* value) {
    check_allocation();
    CHECK(pthread_setspecific(late_key, value) == 0);
}

static void* end_reluctantly(void* value) {
    CHECK(pthread_setspecific(early_key, value) == 0);
    CHECK(pthread_setspecific(late_key, value) == 0);
    return touch_once(NULL);
}

// Destructors of thread-specific data that set their value again run up to four times. They may
// allocate after the last run of Keel's destructor.
static void test_reluctant_threads(void) {
    unsigned before = heaps_made();
    CHECK(pthread_key_create(&late_key, late_ends) == 0);
    for (unsigned i = 0; i < 2000; i++) {
        pthread_t thread;
        void* block;
        CHECK(pthread_create(&thread, NULL, end_reluctantly, &late_key) == 0);
        CHECK(pthread_join(thread, &block) == 0);
        kl_free(block);
    }
    CHECK(heaps_made() <= before + 1);
}

enum { BATCH_BLOCKS = 64, WAITING_BYTES = 32768, SENT = 3000 };

// As heap/remote_batch.h states: no batch has more blocks, and not more bytes wait.
static void check_batches(const struct heap* heap) {
    CHECK(heap->waiting_bytes <= WAITING_BYTES);
    for (unsigned i = 0; i < HEAP_BATCHES; i++) {
        const struct remote_batch* batch = &heap->batches[i];
        if (batch->page != NULL) CHECK(list_count(batch->blocks.word) < BATCH_BLOCKS);
    }
}

static void* free_in_batches(void* blocks) {
    kl_free(kl_malloc(1)); // a heap
    for (unsigned i = 0; i < SENT; i++) {
        kl_free(((void**)blocks)[i]);
        check_batches(thread_heap);
    }
    CHECK(atomic_get(&thread_heap->counts[HEAP_BATCHES_SENT]) > 0);
    return NULL;
}

static void test_batches(void) {
    static const size_t sizes[] = {8, 100, 1000, 9000, 30000, 60000};
    static void* blocks[SENT];
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pthread_t thread;
        for (unsigned j = 0; j < SENT; j++) CHECK((blocks[j] = kl_malloc(sizes[i])) != NULL);
        CHECK(pthread_create(&thread, NULL, free_in_batches, blocks) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        kl_collect(true);
    }
}

int main(void) {
    CHECK(pthread_key_create(&early_key, early_ends) == 0);
    option_set(OPTION_KEEPER, KEEPER_NEVER); // run_check wants a world at rest
    test_generations();
    test_many_threads();
    test_batches();
#ifdef __SANITIZE_THREAD__ // its runtime does not survive the last round of destructors
    (void)test_reluctant_threads;
#else
    test_reluctant_threads();
#endif
    check_work_bounds();
    return 0;
}

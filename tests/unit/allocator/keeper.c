// The keeper's promises, by exact counts: with a warm reserve the program's thread makes no system
// call and takes no page fault in malloc; and memory goes back without any further call.
#ifndef __SANITIZE_ADDRESS__
#define __SANITIZE_ADDRESS__ 0
#endif
#ifndef __SANITIZE_THREAD__
#define __SANITIZE_THREAD__ 0
#endif
#define KEEL_TEST_SANITIZED (__SANITIZE_ADDRESS__ + __SANITIZE_THREAD__)
#include "allocator/keeper/keeper.h"
#include "allocator/heap/heap.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/watch.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static uint64_t event(enum event which) {
    return event_total(which);
}

static long faults_of_this_thread(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt + usage.ru_majflt;
}

static void sleep_ms(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

// The keeper sleeps between its rounds, and on a busy machine it waits for a processor.
enum { TIMEOUT_MS = 60000 };

enum { BLOCKS = 60000, BLOCK_BYTES = 96 }; // 5.5 MiB: 88 slices
static void* blocks[BLOCKS];

static void test_warm(void) {
    memset(blocks, 0xFF, sizeof blocks); // touched now, not while we count
    // A heap's first pages of a class may be cold: they are filled to the last block before we
    // count.
    enum { FIRST = 65536 / BLOCK_BYTES * FILLED_ENOUGH };
    static void* first[FIRST];
    for (unsigned i = 0; i < FIRST; i++) first[i] = kl_malloc(BLOCK_BYTES);
    CHECK(kl_warm((size_t)16 << 20) == (size_t)16 << 20);
    // Until the keeper has read the control group, little may stay warm (keeper.c, guess_cap).
    for (unsigned waited = 0; atomic_get(&policy.cap) != 0 && waited < TIMEOUT_MS; waited += 10)
        sleep_ms(10);
    CHECK(kl_warm((size_t)16 << 20) == (size_t)16 << 20);
    (void)faults_of_this_thread();

    uint64_t calls = event(EVENT_INLINE_CALLS);
    uint64_t misses = event(EVENT_RESERVE_MISS);
    long faults = faults_of_this_thread();
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = kl_malloc(BLOCK_BYTES);
    faults = faults_of_this_thread() - faults;
    for (unsigned i = 0; i < BLOCKS; i++) CHECK(blocks[i] != NULL);
    CHECK(event(EVENT_RESERVE_MISS) == misses);
    if (!KEEL_TEST_SANITIZED) CHECK(faults == 0);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    for (unsigned i = 0; i < FIRST; i++) kl_free(first[i]);
    CHECK(event(EVENT_INLINE_CALLS) == calls);
}

static void wait_for_warm(size_t slices) {
    for (unsigned waited = 0; run_dirty_slices() < slices && waited < TIMEOUT_MS; waited += 10)
        sleep_ms(10);
    CHECK(run_dirty_slices() >= slices);
}

static bool is_resident(uintptr_t address) {
    unsigned char there = 0;
    CHECK(mincore((void*)(address & ~(uintptr_t)4095), 1, &there) == 0);
    return (there & 1) != 0;
}

// What a small process may have idle when it is at rest.
#define REST (BUDGET_BASE / IDLE_SHARE)

static void test_reserve(void) {
    CHECK(kl_warm(0) == 0);
    for (unsigned waited = 0; run_dirty_slices() > REST && waited < TIMEOUT_MS; waited += 10)
        sleep_ms(10); // what test_warm requested goes back
    CHECK(run_dirty_slices() <= REST);
}

// A small process that takes slices gets single ones, not whole units of 2 MiB.
static void test_small_process(void) {
    const size_t mib = (size_t)1 << 20;
    void* large[3];
    kl_collect(true);
    for (unsigned i = 0; i < 3; i++) CHECK((large[i] = kl_malloc(mib)) != NULL);
    wait_for_warm(4);
    sleep_ms(50);
    CHECK(run_dirty_slices() <= REST + 4);
    for (unsigned i = 0; i < 3; i++) kl_free(large[i]);
}

// 128 MiB are used and freed; then this thread does nothing at all.
static void test_memory_goes_back(void) {
    enum { COUNT = 2048 };
    static void* large[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        large[i] = kl_malloc(65536);
        CHECK(large[i] != NULL);
        memset(large[i], 1, 65536);
    }
    for (unsigned i = 0; i < COUNT; i++) kl_free(large[i]);
    uint64_t calls = event(EVENT_INLINE_CALLS);
    for (unsigned waited = 0; run_dirty_slices() > 64 && waited < TIMEOUT_MS; waited += 20)
        sleep_ms(20);
    CHECK(run_dirty_slices() <= 64);
    CHECK(event(EVENT_INLINE_CALLS) == calls);
}

// --- heaps that need nothing, and a heap whose thread sleeps ---

enum { SLEEPERS = 200, SLEEPER_BLOCKS = 60000, SLEEPER_BYTES = 1024 };
static void* sleeper_blocks[SLEEPER_BLOCKS];
static pthread_barrier_t ready, over;

static void* sleep_with_a_heap(void* argument) {
    void* block = kl_malloc(100);
    (void)argument;
    (void)pthread_barrier_wait(&ready);
    (void)pthread_barrier_wait(&over);
    kl_free(block);
    return NULL;
}

// The keeper looks at heaps that have something to do, not at all that exist: it works here 500 ms
// long, beside threads that sleep, and looked at each of them every 4 ms.
static void test_idle_heaps(void) {
    pthread_t threads[SLEEPERS];
    CHECK(pthread_barrier_init(&ready, NULL, SLEEPERS + 1) == 0);
    CHECK(pthread_barrier_init(&over, NULL, SLEEPERS + 1) == 0);
    for (unsigned i = 0; i < SLEEPERS; i++)
        CHECK(pthread_create(&threads[i], NULL, sleep_with_a_heap, NULL) == 0);
    (void)pthread_barrier_wait(&ready);
    for (unsigned waited = 0; !watch_is_empty() && waited < TIMEOUT_MS; waited += 10) sleep_ms(10);
    uint64_t looks = event(EVENT_HEAP_LOOKS);
    for (unsigned i = 0; i < 500; i++) {
        for (unsigned j = 0; j < 64; j++) blocks[j] = kl_malloc(65536);
        for (unsigned j = 0; j < 64; j++) kl_free(blocks[j]);
        sleep_ms(1);
    }
    CHECK(event(EVENT_HEAP_LOOKS) - looks < 10 * SLEEPERS);
    (void)pthread_barrier_wait(&over);
    for (unsigned i = 0; i < SLEEPERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void* allocate_and_sleep(void* argument) {
    (void)argument;
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i++)
        CHECK((sleeper_blocks[i] = kl_malloc(SLEEPER_BYTES)) != NULL);
    (void)pthread_barrier_wait(&ready);
    (void)pthread_barrier_wait(&over);
    return NULL;
}

// The blocks of a thread that sleeps are freed in an order that jumps between its pages. The keeper
// ends the pages, at most 64 at a time.
static void test_sleeping_owner(void) {
    pthread_t thread;
    CHECK(pthread_barrier_init(&ready, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&over, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, allocate_and_sleep, NULL) == 0);
    (void)pthread_barrier_wait(&ready);
    size_t live = run_live_slices();
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i++)
        kl_free(sleeper_blocks[(size_t)i * 7919 % SLEEPER_BLOCKS]); // a prime: each block once
    kl_thread_idle();
    size_t pages = SLEEPER_BLOCKS * SLEEPER_BYTES / SLICE_BYTES;
    for (unsigned waited = 0; live - run_live_slices() < pages && waited < TIMEOUT_MS; waited += 10)
        sleep_ms(10);
    CHECK(live - run_live_slices() >= pages);
    if (KEEL_COUNT) CHECK(atomic_get(&counters.worst[WORK_RELIEF_STEP]) == RELIEF_STEP_MAX);
    (void)pthread_barrier_wait(&over);
    CHECK(pthread_join(thread, NULL) == 0);
}

// A thread frees one block of each of its pages, so that the pages are in its queues.
static void allocate_and_free_some(void) {
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i++) {
        CHECK((sleeper_blocks[i] = kl_malloc(SLEEPER_BYTES)) != NULL);
        memset(sleeper_blocks[i], 1, SLEEPER_BYTES);
    }
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i += SLICE_BYTES / SLEEPER_BYTES) {
        kl_free(sleeper_blocks[i]);
        sleeper_blocks[i] = NULL;
    }
    (void)pthread_barrier_wait(&ready);
}

// Such a thread sleeps. When all other blocks have been freed, the keeper empties the pages.
static void* allocate_free_some_and_sleep(void* continues) {
    allocate_and_free_some();
    (void)pthread_barrier_wait(&over);
    if (continues == NULL) return NULL;
    // The thread finds its pages as good as before.
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i++) {
        CHECK((sleeper_blocks[i] = kl_calloc(1, SLEEPER_BYTES)) != NULL);
        for (unsigned byte = 0; byte < SLEEPER_BYTES; byte++)
            CHECK(((char*)sleeper_blocks[i])[byte] == 0);
        memset(sleeper_blocks[i], 2, SLEEPER_BYTES);
    }
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i++) kl_free(sleeper_blocks[i]);
    return NULL;
}

// The same thread, but it wakes every 10 ms and allocates a little: too little to take all blocks
// from its remote queue within seconds.
static atomic_state wakes;
static void* allocate_free_some_and_wake(void* argument) {
    (void)argument;
    allocate_and_free_some();
    for (; atomic_get(&wakes) != 0; sleep_ms(10)) {
        void* some[8];
        for (unsigned i = 0; i < 8; i++) CHECK((some[i] = kl_malloc(200)) != NULL);
        for (unsigned i = 0; i < 8; i++) kl_free(some[i]);
    }
    (void)pthread_barrier_wait(&over);
    return NULL;
}

static void test_producer(void* (*producer)(void*), void* continues) {
    enum { PAGES = SLEEPER_BLOCKS * SLEEPER_BYTES / SLICE_BYTES };
    static uintptr_t addresses[PAGES];
    pthread_t thread;
    uint64_t emptied = event(EVENT_EMPTIED_PAGES);
    atomic_set(&wakes, 1);
    CHECK(pthread_barrier_init(&ready, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&over, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, producer, continues) == 0);
    (void)pthread_barrier_wait(&ready);
    size_t live = run_live_slices();
    for (unsigned i = 0; i < PAGES; i++)
        addresses[i] = (uintptr_t)sleeper_blocks[i * (SLICE_BYTES / SLEEPER_BYTES) + 1];
    for (unsigned i = 0; i < SLEEPER_BLOCKS; i++) kl_free(sleeper_blocks[i]);
    kl_thread_idle();
    unsigned resident = PAGES;
    for (unsigned waited = 0; resident > PAGES / 10 && waited < TIMEOUT_MS; waited += 20) {
        sleep_ms(20);
        resident = 0;
        for (unsigned i = 0; i < PAGES; i++) resident += is_resident(addresses[i]);
    }
    CHECK(resident <= PAGES / 10);
    CHECK(event(EVENT_EMPTIED_PAGES) - emptied > PAGES / 2); // and the owner did not
    atomic_set(&wakes, 0);
    (void)pthread_barrier_wait(&over);
    CHECK(pthread_join(thread, NULL) == 0);
    // A thread that ends at once leaves pages in its queues, which are released then.
    for (unsigned waited = 0; run_live_slices() + PAGES / 2 > live && waited < TIMEOUT_MS;
         waited += 10)
        sleep_ms(10);
    CHECK(run_live_slices() + PAGES / 2 <= live);
}

int main(void) {
    option_set(OPTION_LARGE_OS_PAGES, 1); // it counts what kl_warm provides
    if (!kl_keeper_start()) {
        CHECK(option_get(OPTION_KEEPER) == KEEPER_NEVER); // the environment forbids it
        return 0;
    }
    test_warm();
    test_reserve();
    test_small_process();
    test_memory_goes_back();
    test_sleeping_owner();
    test_producer(allocate_free_some_and_sleep, blocks);
    test_producer(allocate_free_some_and_sleep, NULL);
    test_producer(allocate_free_some_and_wake, NULL);
    test_idle_heaps();
    check_work_bounds();
    return 0;
}

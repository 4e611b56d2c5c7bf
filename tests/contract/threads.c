/* Blocks that are passed between threads, threads that start and end, and frees at the end of a
 * thread. */
#include "check.h"
#include "memory.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "subject.h"

static pthread_t start(void* (*run)(void*), void* argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

static void finish(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0);
}

static void run_to_end(void* (*run)(void*), void* argument) {
    finish(start(run, argument));
}

struct parcel {
    size_t size;
    uint64_t seed;
    unsigned char contents[];
};

static struct parcel* allocate_parcel(size_t size, uint64_t seed) {
    struct parcel* parcel = malloc(sizeof *parcel + size);
    CHECK(parcel != NULL);
    parcel->size = size;
    parcel->seed = seed;
    pattern_fill(parcel->contents, size, seed);
    return parcel;
}

static void check_and_free(struct parcel* parcel) {
    CHECK_WITH(pattern_holds(parcel->contents, parcel->size, parcel->size, parcel->seed),
               "size %zu", parcel->size);
    free(parcel);
}

// ---- ten thousand threads, each of which leaves blocks for the next ----

enum { THREADS = SUBJECT_API ? 1500 : 10000, LEFT_BEHIND = 24 };

static struct parcel* inheritance[LEFT_BEHIND];

static void* live_a_short_life(void* argument) {
    uint64_t number = (uint64_t)(uintptr_t)argument;
    struct random random = {number};
    for (int i = 0; i < LEFT_BEHIND; i++) {
        if (inheritance[i]) check_and_free(inheritance[i]);
        free(malloc(random_size(&random, 5000)));
        inheritance[i] = allocate_parcel(random_size(&random, i == 0 ? 200000 : 1000),
                                         number * LEFT_BEHIND + (unsigned)i);
    }
    return NULL;
}

TEST(ten_thousand_threads_end_and_leave_live_blocks_to_the_next) {
    size_t early = 0, late;
    for (uintptr_t i = 1; i <= THREADS; i++) {
        run_to_end(live_a_short_life, (void*)i);
        if (i == THREADS / 10) early = resident_bytes();
    }
    late = resident_bytes();
    CHECK_WITH(SUBJECT_API || late < early + 16u * MIB, "%zu KiB, and %zu after a tenth",
               late / KIB, early / KIB);
    for (int i = 0; i < LEFT_BEHIND; i++) check_and_free(inheritance[i]);
}

static void* keep_one_block(void* slot) {
    *(struct parcel**)slot = allocate_parcel(40, 1);
    return NULL;
}

// One live block occupies a part of each ended thread's heap. Other threads must be able to use the
// rest.
TEST(ended_threads_leave_one_block_each_and_the_rest_is_reused) {
    enum { DEAD = 2000 };
    static struct parcel* kept[DEAD];
    for (int i = 0; i < DEAD; i++) run_to_end(keep_one_block, &kept[i]);
    CHECK_WITH(SUBJECT_API || resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
    for (int i = 0; i < DEAD; i++) check_and_free(kept[i]);
}

// The threads sleep until all have started. Five hundred threads that poll every millisecond would
// leave no time to start the remaining threads.
static pthread_barrier_t all_there;

static void* allocate_wait_and_free(void* argument) {
    struct parcel* parcels[50];
    for (unsigned i = 0; i < 50; i++)
        parcels[i] = allocate_parcel(16 + i * 20, (uintptr_t)argument + i);
    (void)pthread_barrier_wait(&all_there);
    for (unsigned i = 0; i < 50; i++) check_and_free(parcels[i]);
    return NULL;
}

TEST(five_hundred_threads_run_at_the_same_time) {
    enum { MANY = 500 };
    static pthread_t threads[MANY];
    CHECK(pthread_barrier_init(&all_there, NULL, MANY) == 0);
    for (uintptr_t i = 0; i < MANY; i++)
        threads[i] = start(allocate_wait_and_free, (void*)(i * 100));
    for (int i = 0; i < MANY; i++) finish(threads[i]);
}

// ---- producer and consumer, pipeline ----

enum { QUEUE = 256, PASSED_ON = SUBJECT_API ? 100000 : 1000000 };

struct queue {
    _Atomic(struct parcel*) slots[QUEUE];
};

static void put(struct queue* queue, unsigned at, struct parcel* parcel) {
    while (atomic_load_explicit(&queue->slots[at % QUEUE], memory_order_relaxed)) sched_yield();
    atomic_store_explicit(&queue->slots[at % QUEUE], parcel, memory_order_release);
}

static struct parcel* take(struct queue* queue, unsigned at) {
    struct parcel* parcel;
    while (!(parcel = atomic_load_explicit(&queue->slots[at % QUEUE], memory_order_acquire)))
        sched_yield();
    atomic_store_explicit(&queue->slots[at % QUEUE], NULL, memory_order_relaxed);
    return parcel;
}

static void* only_free(void* argument) {
    for (unsigned i = 0; i < PASSED_ON; i++) check_and_free(take(argument, i));
    return NULL;
}

TEST(blocks_freed_by_another_thread_are_reused) {
    static struct queue queue;
    struct random random = {8};
    pthread_t consumer = start(only_free, &queue);
    for (unsigned i = 0; i < PASSED_ON; i++)
        put(&queue, i, allocate_parcel(random_size(&random, 4000), i));
    finish(consumer);
    CHECK_WITH(SUBJECT_API || resident_bytes() < 96u * MIB, "%zu KiB", resident_bytes() / KIB);
}

struct stage {
    struct queue *from, *to;
};

static void* pass_on(void* argument) {
    struct stage* stage = argument;
    for (unsigned i = 0; i < PASSED_ON / 5; i++) {
        struct parcel* parcel = take(stage->from, i);
        struct parcel* next = allocate_parcel(parcel->size + (i % 3), parcel->seed + 1);
        check_and_free(parcel);
        put(stage->to, i, next);
    }
    return NULL;
}

TEST(a_pipeline_of_threads_passes_blocks_on) {
    static struct queue queues[4];
    struct stage stages[3] = {
        {&queues[0], &queues[1]}, {&queues[1], &queues[2]}, {&queues[2], &queues[3]}};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = start(pass_on, &stages[i]);
    unsigned sent = 0, received = 0;
    while (received < PASSED_ON / 5) {
        for (int i = 0; i < 100 && sent < PASSED_ON / 5; i++, sent++)
            put(&queues[0], sent, allocate_parcel(sent % 300, sent));
        while (received < sent) check_and_free(take(&queues[3], received++));
    }
    for (int i = 0; i < 3; i++) finish(threads[i]);
    CHECK_WITH(SUBJECT_API || resident_bytes() < 96u * MIB, "%zu KiB", resident_bytes() / KIB);
}

// ---- owners that change ----
//
// As in the benchmark larson, the thread of each round inherits an array of live blocks and exits.

enum { ROTATING = 4, OWNED = 1000, ROTATIONS = 60 };

struct inheritance {
    struct parcel* parcels[OWNED];
    uint64_t seed;
};

static void* own_for_a_while(void* argument) {
    struct inheritance* inheritance = argument;
    struct random random = {inheritance->seed++};
    for (int i = 0; i < 3 * OWNED; i++) {
        size_t at = random_below(&random, OWNED);
        if (inheritance->parcels[at]) check_and_free(inheritance->parcels[at]);
        inheritance->parcels[at] =
            allocate_parcel(random_below(&random, 500), random_next(&random));
    }
    return NULL;
}

TEST(threads_inherit_the_blocks_of_ended_threads) {
    static struct inheritance inheritances[ROTATING];
    pthread_t threads[ROTATING];
    for (unsigned i = 0; i < ROTATING; i++) inheritances[i].seed = 1000 * i;
    for (int round = 0; round < ROTATIONS; round++) {
        for (int i = 0; i < ROTATING; i++) threads[i] = start(own_for_a_while, &inheritances[i]);
        for (int i = 0; i < ROTATING; i++) finish(threads[i]);
    }
    CHECK_WITH(SUBJECT_API || resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

// ---- every thread frees blocks of every other thread, also large blocks ----

static _Atomic(struct parcel*) shelf[64];

static void* exchange(void* argument) {
    struct random random = {(uintptr_t)argument};
    for (int i = 0; i < (SUBJECT_API ? 2000 : 20000); i++) {
        size_t most = i % 200 == 0 ? 6u * MIB : i % 20 == 0 ? 200000 : 2000;
        struct parcel* parcel = allocate_parcel(random_size(&random, most), random_next(&random));
        struct parcel* other = atomic_exchange(&shelf[random_below(&random, 64)], parcel);
        if (other) check_and_free(other);
    }
    return NULL;
}

TEST(blocks_of_all_sizes_are_freed_by_other_threads) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) threads[i] = start(exchange, (void*)(i + 1));
    for (int i = 0; i < 4; i++) finish(threads[i]);
    for (int i = 0; i < 64; i++) {
        if (shelf[i]) check_and_free(shelf[i]);
    }
}

// ---- at the end of a thread ----

static pthread_key_t key;
static _Atomic unsigned destroyed;

static void destroy_and_allocate(void* value) {
    struct parcel* parcel = value;
    uint64_t rounds_left = parcel->seed;
    check_and_free(parcel);
    free(malloc(3000));
    check_and_free(allocate_parcel(100000, 4));
    atomic_fetch_add(&destroyed, 1);
    if (rounds_left > 0)
        pthread_setspecific(
            key, allocate_parcel(77, rounds_left - 1)); // runs in the next round of destructors
}

static void* set_specific(void* argument) {
    (void)argument;
    CHECK(pthread_setspecific(key, allocate_parcel(50, SUBJECT_UNDER_TSAN ? 1 : 2)) == 0);
    return NULL;
}

TEST(destructors_of_thread_locals_free_and_allocate) {
    CHECK(pthread_key_create(&key, destroy_and_allocate) == 0);
    for (int i = 0; i < 1000; i++) run_to_end(set_specific, NULL);
    CHECK_EQUAL(destroyed, SUBJECT_UNDER_TSAN ? 2000 : 3000);
    CHECK_WITH(SUBJECT_API || resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

// A thread whose only call of the allocator comes from a destructor, possibly after the allocator's
// own destructor has run.
static void* set_what_main_allocated(void* parcel) {
    CHECK(pthread_setspecific(key, parcel) == 0);
    return NULL;
}

TEST(the_first_call_of_a_thread_may_come_from_a_destructor) {
    pthread_key_t keys[20];
    for (int i = 0; i < 20; i++) CHECK(pthread_key_create(&keys[i], NULL) == 0);
    CHECK(pthread_key_create(&key, destroy_and_allocate) == 0);
    // In the last rounds TSan has already removed its own state of the thread.
    unsigned rounds = SUBJECT_UNDER_TSAN ? 2 : PTHREAD_DESTRUCTOR_ITERATIONS;
    for (int i = 0; i < 1000; i++)
        run_to_end(set_what_main_allocated, allocate_parcel(60, rounds - 1));
    CHECK_EQUAL(destroyed, 1000 * rounds);
}

#ifndef __SANITIZE_ADDRESS__ // ASan cannot follow the unwinding of a cancelled thread
static void* wait_for_end(void* argument) {
    struct parcel* parcel = allocate_parcel(1000, 5);
    pthread_cleanup_push(free, parcel);
    atomic_fetch_add((_Atomic unsigned*)argument, 1);
    for (;;) sleep_ms(1000);
    pthread_cleanup_pop(1);
    return NULL;
}

TEST(cancelled_threads_clean_up) {
    for (int i = 0; i < 100; i++) {
        _Atomic unsigned ready = 0;
        pthread_t thread = start(wait_for_end, &ready);
        while (!ready) sched_yield();
        CHECK(pthread_cancel(thread) == 0);
        finish(thread);
    }
}

// A cancelled thread ends at its next cancellation point. malloc is none, whatever it has to do:
// the blocks exceed the 4 GiB of addresses that Keel takes from at a time, and the following 4 GiB
// are not free.
struct cancelled {
    _Atomic bool requested, finished;
};
enum { BLOCKS_OVER_4_GIB = 2500 };

static void* allocate_after_a_request(void* argument) {
    static void* blocks[BLOCKS_OVER_4_GIB];
    struct cancelled* cancelled = argument;
    while (!cancelled->requested) sched_yield();
    check_and_free(allocate_parcel(100, 6));
    for (int i = 0; i < BLOCKS_OVER_4_GIB; i++) blocks[i] = malloc(2u * MIB);
    for (int i = 0; i < BLOCKS_OVER_4_GIB; i++) free(blocks[i]);
    free(realloc(malloc(100), 9u * MIB));
    free(memalign(8u * MIB, 100));
    free(malloc(PTRDIFF_MAX));
    cancelled->finished = true;
    for (;;) sleep_ms(1);
    return NULL;
}

TEST(a_call_is_not_a_cancellation_point) {
    enum { TAKEN_BYTES = 4096 };
    uintptr_t window = (uintptr_t)4 << 30;
    struct cancelled cancelled = {false, false};
    struct parcel* parcel = allocate_parcel(100, 7);
    uintptr_t following = ((uintptr_t)parcel / window + 1) * window;
    void* result;
    (void)mmap((void*)following, TAKEN_BYTES, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    check_and_free(parcel);
    pthread_t thread = start(allocate_after_a_request, &cancelled);
    CHECK(pthread_cancel(thread) == 0);
    cancelled.requested = true;
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && cancelled.finished);
}
#endif

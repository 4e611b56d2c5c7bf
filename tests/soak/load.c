#include "load.h"

#include <errno.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parcel.h"

enum { MOST_PHASES = 16, MOST_KEPT = 16384, SHORT_GROUPS = 6, CHILDREN = 2, CHILD_SECONDS = 240 };
enum { HEAP_LIMIT = 4 * MIB, WORK_PER_PAUSE_US = 1000, PAUSE_FACTOR = 9, PARTS = 4 };

struct load_counts load_counts;
atomic_size_t load_live;
static struct worker workers[WORKERS + SHORT_WORKERS];
static _Atomic(struct parcel*) shared[SHARED];
static _Atomic(struct parcel*) kept[MOST_PHASES][MOST_KEPT];
static const struct phase* phase; // the running one; changes only while no thread runs
static unsigned phase_index;

void load_fail(const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "soak: %s (phase %s)\n", text, phase ? phase->name : "none");
    _exit(1);
}

// --- One block -----------------------------------------------------------------------------------

static void check(const char* fault, const struct parcel* parcel, size_t size) {
    if (fault) load_fail("%s, at %p, size %zu", fault, (const void*)parcel, size);
}

static void verify(const struct parcel* parcel) {
    check(parcel_verify(parcel), parcel, parcel->size);
}

static void discard(struct parcel* parcel) {
    if (!parcel) return;
    size_t size = parcel->size;
    const char* fault = parcel_discard(parcel);
    check(fault, parcel, size);
    atomic_fetch_sub(&load_live, size);
}

// An allocation has failed, which only a limit permits.
static struct parcel* refused(size_t size) {
    if (!phase->limited) load_fail("no memory for %zu bytes", size);
    if (errno != ENOMEM) load_fail("a refused allocation set errno to %d", errno);
    atomic_fetch_add(&load_counts.refused, 1);
    return NULL;
}

static struct parcel* make(struct worker* worker, size_t size) {
    struct parcel* parcel;
    const char* fault = parcel_make(&worker->random, size, &parcel);
    check(fault, parcel, size);
    if (!parcel) return refused(size);
    atomic_fetch_add(&load_live, size);
    return parcel;
}

static struct parcel* resize(struct worker* worker, struct parcel* parcel, size_t size) {
    size_t old_size = parcel->size;
    struct parcel* resized;
    const char* fault = parcel_resize(&worker->random, parcel, size, &resized);
    check(fault, resized, old_size);
    if (!resized) {
        refused(size);
        verify(parcel);
        return parcel;
    }
    atomic_fetch_add(&load_live, size - old_size);
    return resized;
}

static uint64_t thread_cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

// Sleeps nine times as long as the thread has worked: ten threads use one processor at most.
static void pause_after_work(uint64_t* worked_until_us) {
    uint64_t used = thread_cpu_us() - *worked_until_us;
    if (used < WORK_PER_PAUSE_US) return;
    uint64_t pause_us = used * PAUSE_FACTOR;
    struct timespec pause = {(time_t)(pause_us / 1000000), (long)(pause_us % 1000000) * 1000};
    nanosleep(&pause, NULL);
    *worked_until_us = thread_cpu_us();
}

// --- Operations ----------------------------------------------------------------------------------

static size_t pick_size(struct worker* worker) {
    if (phase->least == 0) return random_size(&worker->random, phase->most);
    return phase->least + random_below(&worker->random, phase->most - phase->least + 1);
}

static bool over_budget(void) {
    return atomic_load(&load_live) > phase->budget;
}

static void replace_tiny(struct worker* worker) {
    struct tiny* tiny = &worker->tiny[random_below(&worker->random, TINY)];
    if (tiny->block && !pattern_holds(tiny->block, tiny->size, tiny->size, tiny->size))
        load_fail("contents are damaged at %p, size %zu", (void*)tiny->block, tiny->size);
    free(tiny->block);
    tiny->size = random_below(&worker->random, 16);
    tiny->block = malloc(tiny->size);
    if (!tiny->block)
        refused(tiny->size);
    else
        pattern_fill(tiny->block, tiny->size, tiny->size);
}

// Grows a block by half as a vector does.
static void grow_vector(struct worker* worker) {
    size_t most = phase->most < 64 * KIB ? 64 * KIB : phase->most;
    struct parcel* parcel = make(worker, 16);
    while (parcel && parcel->size < most && !over_budget()) {
        size_t before = parcel->size;
        parcel = resize(worker, parcel, before + before / 2);
        if (parcel->size == before) break; // refused
    }
    discard(parcel);
}

// Replaces a long-lived block.
static void replace_kept(struct worker* worker, size_t slot) {
    size_t span = phase->kept_most - phase->kept_least;
    struct parcel* parcel = make(worker, phase->kept_least + slot * span / phase->kept);
    if (parcel) discard(atomic_exchange(&kept[phase_index][slot], parcel));
}

// One of the worker's parts: replaces a third of its share of the long-lived blocks, and in the
// first cycle allocates all of its share.
static void replace_share_of_kept(struct worker* worker, unsigned part) {
    uint64_t worked_until_us = thread_cpu_us();
    for (size_t slot = worker->index * PARTS + part; slot < phase->kept; slot += WORKERS * PARTS) {
        bool empty = atomic_load(&kept[phase_index][slot]) == NULL;
        if (empty || random_below(&worker->random, 3) == 0) replace_kept(worker, slot);
        pause_after_work(&worked_until_us);
    }
}

static void operate(struct worker* worker) {
    uint64_t kind = random_below(&worker->random, 100);
    struct parcel** own = &worker->own[random_below(&worker->random, OWN)];
    _Atomic(struct parcel*)* exchange = &shared[random_below(&worker->random, SHARED)];
    if (kind < 40) {
        discard(*own);
        *own = over_budget() ? NULL : make(worker, pick_size(worker));
    } else if (kind < 55) {
        discard(*own);
        *own = NULL;
    } else if (kind < 68) {
        if (*own) *own = resize(worker, *own, pick_size(worker));
    } else if (kind < 80) {
        replace_tiny(worker);
    } else if (kind < 90) { // give a block to the other threads and free another one
        discard(atomic_exchange(exchange, over_budget() ? NULL : make(worker, pick_size(worker))));
    } else {
        *own = atomic_exchange(exchange, *own);
        if (*own) verify(*own);
    }
}

// A heap of the program, with a limit or without, destroyed with its blocks or deleted before them.
static void use_heap(struct worker* worker) {
    enum { BLOCKS = 600 };
    struct parcel* blocks[BLOCKS] = {NULL};
    bool limit = random_below(&worker->random, 2) == 0;
    kl_heap_t* heap = kl_heap_new_with_limit(limit ? HEAP_LIMIT : 0);
    if (!heap) {
        refused(0);
        return;
    }
    unsigned count = 0;
    size_t most = limit ? 64 * KIB : 2 * KIB;
    for (; count < BLOCKS; count++) {
        size_t size = 1 + random_below(&worker->random, most);
        blocks[count] = kl_heap_malloc(heap, size + sizeof(struct parcel));
        if (!blocks[count]) break;
        parcel_sign(&worker->random, blocks[count], size);
    }
    if (limit && count == BLOCKS) load_fail("a heap exceeded its limit of %d bytes", HEAP_LIMIT);
    if (count < BLOCKS && !limit) refused(most);
    for (unsigned i = 0; i < count; i++) verify(blocks[i]);
    if (random_below(&worker->random, 2) == 0) {
        kl_heap_destroy(heap);
    } else {
        kl_heap_delete(heap);
        for (unsigned i = 0; i < count; i++) {
            verify(blocks[i]);
            free(blocks[i]);
        }
    }
    atomic_fetch_add(&load_counts.heaps, 1);
}

static void operate_paced(struct worker* worker, unsigned operations) {
    unsigned every = phase->most > 16 * KIB ? 1 : 16;
    uint64_t worked_until_us = thread_cpu_us();
    for (unsigned i = 0; i < operations; i++) {
        operate(worker);
        if (i % every == 0) pause_after_work(&worked_until_us);
    }
    atomic_fetch_add(&load_counts.operations, operations);
}

// --- Threads and children ------------------------------------------------------------------------

static void* work(void* argument) {
    struct worker* worker = argument;
    for (unsigned part = 0; part < PARTS; part++) {
        operate_paced(worker, phase->operations / PARTS);
        grow_vector(worker);
        use_heap(worker);
        replace_share_of_kept(worker, part);
    }
    return NULL;
}

static void* work_briefly(void* argument) {
    operate_paced(argument, phase->operations / 40);
    return NULL;
}

static void start(pthread_t* thread, void* (*run)(void*), void* argument) {
    int error = pthread_create(thread, NULL, run, argument);
    if (error) load_fail("cannot start a thread: %s", strerror(error));
    atomic_fetch_add(&load_counts.threads, 1);
}

// Threads that start, inherit the blocks of threads that have ended, and end.
static void* churn_threads(void* unused) {
    for (unsigned group = 0; group < SHORT_GROUPS; group++) {
        pthread_t threads[SHORT_WORKERS];
        for (unsigned i = 0; i < SHORT_WORKERS; i++)
            start(&threads[i], work_briefly, &workers[WORKERS + (i + group) % SHORT_WORKERS]);
        for (unsigned i = 0; i < SHORT_WORKERS; i++) pthread_join(threads[i], NULL);
    }
    return unused;
}

// The child verifies and frees the blocks that it inherited, and works with two threads.
static __attribute__((noreturn)) void live_as_child(struct worker* worker, bool exits) {
    pthread_t thread;
    alarm(CHILD_SECONDS);
    for (unsigned i = 0; i < SHARED; i++) discard(atomic_exchange(&shared[i], NULL));
    start(&thread, work_briefly, worker);
    pthread_join(thread, NULL);
    operate_paced(worker, phase->operations / 40);
    for (unsigned i = 0; i < OWN; i++) discard(worker->own[i]);
    if (exits) exit(0);
    _exit(0);
}

static void* fork_children(void* unused) {
    static struct worker own; // stays empty in the parent
    for (unsigned i = 0; i < CHILDREN; i++) {
        int status;
        own.random.state += i + 1;
        pid_t child = fork();
        if (child < 0) load_fail("fork: %s", strerror(errno));
        if (child == 0) live_as_child(&own, i % 2 == 0);
        if (waitpid(child, &status, 0) != child) load_fail("waitpid: %s", strerror(errno));
        if (status != 0) load_fail("a child ended with status 0x%x", (unsigned)status);
        atomic_fetch_add(&load_counts.forks, 1);
    }
    return unused;
}

// Allocates until the limit refuses. What is allocated alone must not exceed the limit.
static void reach_limit(size_t limit) {
    enum { SIZE = 64 * KIB };
    void **first = NULL, **block;
    size_t bytes = 0;
    while ((block = malloc(SIZE)) != NULL) {
        *block = (void*)first;
        first = block;
        bytes += SIZE;
        if (bytes > limit) load_fail("%zu bytes were allocated under a limit of %zu", bytes, limit);
    }
    refused(SIZE);
    while (first != NULL) {
        block = *first;
        free((void*)first);
        first = block;
    }
}

void load_run(const struct phase* next, unsigned index) {
    // Blocks of at most 1 MiB, and each thread may exceed the limit by one of them.
    enum { ROOM = 8 * MIB, EXCESS = (WORKERS + SHORT_WORKERS + 3) * MIB };
    pthread_t threads[WORKERS], churner, forker;
    struct kl_process process;
    size_t limit = 0;
    phase = next;
    phase_index = index;
    if (index >= MOST_PHASES || phase->kept > MOST_KEPT) load_fail("the tables are too small");
    if (phase->limited) {
        kl_process_info(&process);
        limit = process.held_bytes + ROOM;
        kl_limit(limit);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].index = i;
        workers[i].random.state += i + 1; // another sequence for each thread of this worker
        start(&threads[i], work, &workers[i]);
    }
    start(&churner, churn_threads, NULL);
    start(&forker, fork_children, NULL);
    if (phase->limited) reach_limit(limit);
    for (unsigned i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    pthread_join(churner, NULL);
    pthread_join(forker, NULL);
    if (phase->limited) {
        kl_process_info(&process);
        if (process.held_bytes > limit + EXCESS)
            load_fail("%llu bytes are held under a limit of %zu",
                      (unsigned long long)process.held_bytes, limit);
        if (kl_limit(0) != limit) load_fail("the limit was changed");
    }
}

void load_free_transient(void) {
    for (unsigned i = 0; i < WORKERS + SHORT_WORKERS; i++) {
        struct worker* worker = &workers[i];
        for (unsigned k = 0; k < OWN; k++) {
            discard(worker->own[k]);
            worker->own[k] = NULL;
        }
        for (unsigned k = 0; k < TINY; k++) {
            free(worker->tiny[k].block);
            worker->tiny[k].block = NULL;
        }
    }
    for (unsigned k = 0; k < SHARED; k++) discard(atomic_exchange(&shared[k], NULL));
}

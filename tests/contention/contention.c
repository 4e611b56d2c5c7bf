// Writes to cache lines that other threads write too: what makes an allocator slow on 64
// processors, counted, because no such machine is needed for a count.
//
//   contended            prints a table, and fails if a figure is above its bound
//   contended --lines    also prints the lines with most writes of each workload
//
// A write counts if the allocator makes it to a line of its own data (not of a block, whose lines
// the program writes as well) that a second thread has written in the same run. The figures are per
// 1,000 calls of malloc and free by all threads together. Where memory passes from thread to thread
// with its metadata, fewer writes count (enum counted).
#include "allocator/heap/pool.h"
#include "allocator/space/arena.h"
#include "allocator/space/window.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include "record.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS_MAX 256u
#define CALLS 20000u // by each thread: malloc and free each

static unsigned threads;
static pthread_barrier_t gate;      // all threads and the main one
static pthread_barrier_t round_end; // the threads

// --- Workloads: each thread runs one round to warm up, then a recorded one -----------------------

static size_t small_size(uint64_t* random) {
    return 16 + random_next(random) % 240;
}

// A block in turn and a stack of 64: every malloc finds its bin filled, or its page's own list.
static void hits(unsigned thread, uint64_t* random) {
    (void)thread;
    void* held[64];
    for (unsigned i = 0; i < CALLS / 64; i++) {
        for (unsigned j = 0; j < 64; j++) held[j] = kl_malloc(64);
        for (unsigned j = 0; j < 64; j++) kl_free(held[63 - j]);
    }
    (void)random;
}

// 2,000 blocks of 16 to 255 bytes, replaced at random: refills from the thread's own pages. Before
// that the thread holds 240 of each class at once, more than it ever does at random: so the warm-up
// carves all that the recorded round needs. On a cold page each carve is a write (policy_touch).
static void own_churn(unsigned thread, uint64_t* random) {
    (void)thread;
    enum { HELD = 2000, CLASSES = 16, MOST = CLASSES * 240 };
    void** held =
        mmap(NULL, MOST * sizeof *held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < MOST; i++) held[i] = kl_malloc(16 + i % CLASSES * 15);
    for (unsigned i = HELD; i < MOST; i++) kl_free(held[i]);
    for (unsigned i = MOST; i < CALLS; i++) {
        unsigned at = (unsigned)(random_next(random) % HELD);
        kl_free(held[at]);
        held[at] = kl_malloc(small_size(random));
    }
    for (unsigned i = 0; i < HELD; i++) kl_free(held[i]);
    munmap(held, MOST * sizeof *held);
}

// Larson's server: each thread replaces blocks of an array, and passes the array on.
#define LARSON_HELD 1000u
static void* larson_held[THREADS_MAX][LARSON_HELD];
static void larson(unsigned thread, uint64_t* random) {
    for (unsigned part = 0; part < 4; part++) {
        void** held = larson_held[(thread + part) % threads];
        for (unsigned i = 0; i < CALLS / 4; i++) {
            unsigned at = (unsigned)(random_next(random) % LARSON_HELD);
            kl_free(held[at]);
            held[at] = kl_malloc(small_size(random));
        }
        pthread_barrier_wait(&round_end);
    }
}

// Half of the threads allocate, each for one of the others, which frees.
#define QUEUE 1024u
static struct queue { _Atomic(void*) slot[QUEUE]; } queues[THREADS_MAX / 2];
static void producer_consumer(unsigned thread, uint64_t* random) {
    struct queue* queue = &queues[thread / 2];
    for (unsigned i = 0; i < CALLS; i++) {
        _Atomic(void*)* slot = &queue->slot[i % QUEUE];
        if (thread % 2 == 0) {
            while (atomic_load(slot) != NULL) sched_yield();
            atomic_store(slot, kl_malloc(small_size(random)));
        } else {
            while (atomic_load(slot) == NULL) sched_yield();
            kl_free(atomic_exchange(slot, NULL));
        }
    }
}

// All threads exchange the blocks of one table. They yield, so that nearly every block is freed by
// another thread than its own, however few processors there are.
static _Atomic(void*) slots[4096];
static void shared_slots(unsigned thread, uint64_t* random) {
    (void)thread;
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned at = (unsigned)(random_next(random) % 4096);
        kl_free(atomic_exchange(&slots[at], kl_malloc(small_size(random))));
        if (i % 16 == 0) sched_yield();
    }
}

// Blocks of 70,000 to 1,000,000 bytes, which are taken from the slices that all threads share, and
// pages of small blocks that begin and end.
static void slices(unsigned thread, uint64_t* random) {
    (void)thread;
    enum { HELD = 12, SMALL = 300, ROUND = HELD + SMALL };
    void* large[HELD] = {NULL};
    void* small[SMALL];
    for (unsigned i = 0; i < CALLS / ROUND; i++) {
        for (unsigned j = 0; j < HELD; j++) {
            kl_free(large[j]);
            large[j] = kl_malloc(70000 + random_next(random) % 930000);
        }
        for (unsigned j = 0; j < SMALL; j++) small[j] = kl_malloc(500 + i % 8 * 500);
        for (unsigned j = 0; j < SMALL; j++) kl_free(small[j]);
    }
    for (unsigned j = 0; j < HELD; j++) kl_free(large[j]);
}

// Threads that begin, allocate a little and end. A heap passes from thread to thread with all its
// lines, so the writes that count are those by another thread than the one before.
#define CHURN_THREADS 20u
static void* churning_thread(void* number) {
    record_thread((unsigned)(uintptr_t)number);
    void* held[100];
    for (unsigned i = 0; i < CALLS / CHURN_THREADS / 100; i++) {
        for (unsigned j = 0; j < 100; j++) held[j] = kl_malloc(16 + j * 7);
        for (unsigned j = 0; j < 100; j++) kl_free(held[j]);
    }
    return NULL;
}
static void thread_churn(unsigned thread, uint64_t* random) {
    (void)random;
    for (unsigned i = 0; i < CHURN_THREADS; i++) {
        uintptr_t number = THREADS_MAX + thread * CHURN_THREADS + i;
        pthread_t started;
        CHECK(pthread_create(&started, NULL, churning_thread, (void*)number) == 0);
        CHECK(pthread_join(started, NULL) == 0);
    }
}

// --- Running -------------------------------------------------------------------------------------

enum counted {
    COUNT_ALL,
    COUNT_COMMON, // not those to the metadata of slices, which pass from thread to thread
    COUNT_PASSES, // only those by another thread than the one that wrote the line before
};

struct workload {
    const char* name;
    void (*run)(unsigned thread, uint64_t* random);
    unsigned calls; // of malloc and free, by each thread
    double most;    // writes per 1,000 calls, with any number of threads
    enum counted counted;
};

static const struct workload* current;

static void* thread_main(void* argument) {
    unsigned thread = (unsigned)(uintptr_t)argument;
    uint64_t random = thread + 1;
    current->run(thread, &random);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate); // recording begins between the two
    record_thread(thread);
    current->run(thread, &random);
    record_thread(RECORD_NONE); // its end is not part of the workload
    pthread_barrier_wait(&gate);
    return NULL;
}

static bool is_own_data(const void* written) {
    return !slices_contain(written);
}

static bool is_common(const void* written) {
    for (size_t i = 0; i < atomic_get(&windows.count); i++) {
        uintptr_t pages = (uintptr_t)window_at(i) + WINDOW_HEADER_BYTES;
        if ((uintptr_t)written - pages < PAGE_PARTS * PAGE_PART_DISTANCE) return false;
    }
    return is_own_data(written);
}

static void print_line(const void* line, uint64_t writes) {
    if (writes * 500 < (uint64_t)CALLS * threads) return;
    printf("    %p %lu\n", line, (unsigned long)writes);
}

// Writes to shared lines per 1,000 calls.
static double measure(const struct workload* workload, unsigned count, bool lines) {
    pthread_t started[THREADS_MAX];
    threads = count;
    current = workload;
    CHECK(pthread_barrier_init(&gate, NULL, count + 1) == 0);
    CHECK(pthread_barrier_init(&round_end, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&started[i], NULL, thread_main, (void*)(uintptr_t)i) == 0);
    pthread_barrier_wait(&gate);
    record_start(workload->counted == COUNT_COMMON ? is_common : is_own_data);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    record_stop();
    for (unsigned i = 0; i < count; i++) CHECK(pthread_join(started[i], NULL) == 0);
    uint64_t writes = record_shared_writes(lines ? print_line : NULL);
    if (workload->counted == COUNT_PASSES) writes = record_passes();
    return (double)writes * 1000 / ((double)workload->calls * count);
}

// The bounds leave room for the keeper and for the order in which threads run: they are a fifth or
// more above the largest figures of 116 runs, four at once on two processors: 0, 0, 294, 16, 67,
// 699 and 28. One write more for each refill is above three of them: "hits" has 0.05, "own churn"
// 0.03 and "slices" 386. In "shared slots" every other call is a remote free. With 256 owners
// nearly every one is for another page than the ones before, so it cannot be batched: one write
// each, 500 per 1,000 calls. With two it would be 1,000.
static const struct workload workloads[] = {
    {"hits", hits, 2 * CALLS, 0.01, COUNT_ALL},
    {"own churn", own_churn, 2 * CALLS, 0.01, COUNT_ALL},
    {"slices", slices, 2 * CALLS, 355, COUNT_COMMON},
    {"larson", larson, 2 * CALLS, 25, COUNT_ALL},
    {"producer and consumer", producer_consumer, CALLS, 80, COUNT_ALL},
    {"shared slots", shared_slots, 2 * CALLS, 840, COUNT_ALL},
    {"thread churn", thread_churn, 2 * CALLS, 50, COUNT_PASSES},
};

// Above its bound a workload is measured again: on a busy machine the keeper runs at other times.
static double least(const struct workload* workload, unsigned threads, bool lines) {
    double writes = measure(workload, threads, lines);
    for (unsigned tries = 1; writes > workload->most && tries < 4; tries++) {
        double again = measure(workload, threads, lines);
        if (again < writes) writes = again;
    }
    return writes;
}

int main(int count, char** arguments) {
    static const unsigned numbers[] = {2, 8, 32, 128, 256};
    bool lines = count > 1 && strcmp(arguments[1], "--lines") == 0;
    bool holds = true;
    record_prepare();
    printf("writes to cache lines that other threads write too, per 1,000 calls\n%-24s", "threads");
    for (unsigned i = 0; i < 5; i++) printf("%10u", numbers[i]);
    printf("%10s\n", "bound");
    for (unsigned i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        printf("%-24s", workloads[i].name);
        for (unsigned j = 0; j < 5; j++) {
            double writes = least(&workloads[i], numbers[j], lines);
            printf("%10.3f", writes);
            fflush(stdout);
            holds &= writes <= workloads[i].most;
        }
        printf("%10.2f\n", workloads[i].most);
    }
    if (!holds) puts("above a bound");
    return holds ? 0 : 1;
}

/*
 * Many threads allocate, resize, exchange and free blocks of all sizes. The contents of every block
 * are verified before it is passed to another thread or freed. Threads run in generations: each
 * thread inherits the live blocks of a thread that has ended.
 *
 *     stress [--threads N] [--operations N] [--seed N]      (operations are per thread)
 *
 * The requests and the printed line depend only on the seed, not on timing. Therefore the output
 * must be the same with every allocator. If the test finds a fault, it prints the seed, the thread
 * and the operation, and exits with status 1. A fault may also crash the program.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "subject.h"

#include "parcel.h"

enum { MOST_THREADS = 64, OWN = 400, TINY = 100, SHARED = 256, GENERATIONS = 8 };

struct tiny {
    unsigned char* block;
    size_t size;
};

// The blocks of a thread, which a thread of the next generation inherits.
struct worker {
    struct random random;
    struct parcel* parcels[OWN];
    struct tiny tiny[TINY];
    unsigned thread;
    uint64_t operation;
    uint64_t bytes_requested;
};

static struct worker workers[MOST_THREADS];
static _Atomic(struct parcel*) shared[SHARED];
static unsigned thread_count = 4;
static uint64_t operations_each = 200000, seed = 1;

static __attribute__((noreturn)) void fail(const struct worker* worker, const char* what,
                                           size_t size) {
    dprintf(STDERR_FILENO, "stress: %s, size %zu (seed %llu, thread %u, operation %llu)\n", what,
            size, (unsigned long long)seed, worker->thread, (unsigned long long)worker->operation);
    _exit(1);
}

static size_t pick_size(struct worker* worker) {
    uint64_t kind = random_below(&worker->random, 4000);
    size_t most = kind < 3600 ? 1000 : kind < 3950 ? 40000 : kind < 3998 ? 700000 : 9u * MIB;
    size_t size = random_size(&worker->random, most);
    worker->bytes_requested += size;
    return size;
}

static void verify(struct worker* worker, struct parcel* parcel) {
    const char* fault = parcel_verify(parcel);
    if (fault) fail(worker, fault, parcel->size);
}

static void discard(struct worker* worker, struct parcel* parcel) {
    if (!parcel) return;
    const char* fault = parcel_discard(parcel);
    if (fault) fail(worker, fault, parcel->size);
}

static struct parcel* make(struct worker* worker) {
    struct parcel* parcel;
    size_t size = pick_size(worker);
    const char* fault = parcel_make(&worker->random, size, &parcel);
    if (fault) fail(worker, fault, size);
    if (!parcel) fail(worker, "no memory", size);
    return parcel;
}

// Draws the same number of random numbers for an empty slot as for a full one. Therefore the
// results do not depend on the slots that other threads have filled.
static struct parcel* resize(struct worker* worker, struct parcel* parcel) {
    struct parcel* resized;
    size_t size = pick_size(worker);
    const char* fault = parcel_resize(&worker->random, parcel, size, &resized);
    if (fault) fail(worker, fault, size);
    if (!resized) fail(worker, "no memory", size);
    return resized;
}

// Blocks of 0 to 15 bytes, which are too small for a header.
static void replace_tiny(struct worker* worker, struct tiny* tiny) {
    if (tiny->block && !pattern_holds(tiny->block, tiny->size, tiny->size, tiny->size)) {
        fail(worker, "contents are damaged", tiny->size);
    }
    free(tiny->block);
    tiny->size = random_below(&worker->random, 16);
    tiny->block = malloc(tiny->size);
    if (!tiny->block) fail(worker, "no memory", tiny->size);
    pattern_fill(tiny->block, tiny->size, tiny->size);
}

static void operate(struct worker* worker) {
    uint64_t kind = random_below(&worker->random, 100);
    struct parcel** own = &worker->parcels[random_below(&worker->random, OWN)];
    worker->operation++;
    if (kind < 35) {
        discard(worker, *own);
        *own = make(worker);
    } else if (kind < 55) {
        discard(worker, *own);
        *own = NULL;
    } else if (kind < 70) {
        *own = resize(worker, *own);
    } else if (kind < 80) {
        replace_tiny(worker, &worker->tiny[random_below(&worker->random, TINY)]);
    } else if (kind < 90) { // put a block into the shared table and free the previous one
        discard(worker,
                atomic_exchange(&shared[random_below(&worker->random, SHARED)], make(worker)));
    } else { // exchange a block with the shared table and keep the previous one
        if (*own) verify(worker, *own);
        *own = atomic_exchange(&shared[random_below(&worker->random, SHARED)], *own);
        if (*own) verify(worker, *own);
    }
}

static void* live(void* argument) {
    struct worker* worker = argument;
    for (uint64_t i = 0; i < operations_each / GENERATIONS; i++) operate(worker);
    return NULL;
}

static void run_generation(unsigned generation) {
    pthread_t threads[MOST_THREADS];
    for (unsigned i = 0; i < thread_count; i++) {
        if (pthread_create(&threads[i], NULL, live, &workers[(i + generation) % thread_count]) !=
            0) {
            perror("stress: cannot start a thread");
            _exit(2);
        }
    }
    for (unsigned i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
}

static void free_all(void) {
    for (unsigned i = 0; i < thread_count; i++) {
        for (unsigned k = 0; k < OWN; k++) discard(&workers[i], workers[i].parcels[k]);
        for (unsigned k = 0; k < TINY; k++) free(workers[i].tiny[k].block);
    }
    for (unsigned k = 0; k < SHARED; k++) discard(&workers[0], shared[k]);
}

static uint64_t number_after(int argc, char** argv, const char* name, uint64_t otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) return strtoull(argv[i + 1], NULL, 10);
    }
    return otherwise;
}

int main(int argc, char** argv) {
    uint64_t operations = 0, bytes = 0,
             threads = number_after(argc, argv, "--threads", thread_count);
    if (argc % 2 == 0 || threads == 0 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: stress [--threads 1..%d] [--operations N] [--seed N]\n",
                MOST_THREADS);
        return 2;
    }
    thread_count = (unsigned)threads;
    operations_each = number_after(argc, argv, "--operations", operations_each);
    seed = number_after(argc, argv, "--seed", seed);
    for (unsigned i = 0; i < thread_count; i++) {
        workers[i].thread = i;
        workers[i].random.state = seed * 1000003 + i;
    }
    for (unsigned generation = 0; generation < GENERATIONS; generation++)
        run_generation(generation);
    free_all();
    for (unsigned i = 0; i < thread_count; i++) {
        operations += workers[i].operation;
        bytes += workers[i].bytes_requested;
    }
    printf("seed %llu: %u threads, %llu operations, %llu bytes requested, all contents verified\n",
           (unsigned long long)seed, thread_count, (unsigned long long)operations,
           (unsigned long long)bytes);
    return 0;
}

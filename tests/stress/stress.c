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
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "subject.h"

enum { MOST_THREADS = 64, OWN = 400, TINY = 100, SHARED = 256, GENERATIONS = 8 };

// A block contains its size and pattern, so any thread can verify it.
struct parcel {
    size_t size; // of the contents
    uint64_t seed;
    unsigned char contents[];
};

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

// The seed in the header depends on the size, so an overwritten header is detected.
static void sign(struct worker* worker, struct parcel* parcel, size_t size) {
    parcel->size = size;
    parcel->seed = (random_next(&worker->random) << 32) | (uint32_t)(size * 2654435761u);
    pattern_fill(parcel->contents, size, parcel->seed);
}

static void verify(struct worker* worker, struct parcel* parcel) {
    if ((uint32_t)parcel->seed != (uint32_t)(parcel->size * 2654435761u))
        fail(worker, "a header is damaged", parcel->size);
    if (!pattern_holds(parcel->contents, parcel->size, parcel->size, parcel->seed)) {
        fail(worker, "contents are damaged", parcel->size);
    }
}

static void discard(struct worker* worker, struct parcel* parcel) {
    if (!parcel) return;
    verify(worker, parcel);
    parcel->seed = 0; // a second free or a use after free finds a damaged header
    free(parcel);
}

static struct parcel* make(struct worker* worker) {
    size_t size = pick_size(worker), whole = size + sizeof(struct parcel);
    uint64_t kind = random_below(&worker->random, 10);
    struct parcel* parcel;
    if (kind < 6) {
        parcel = malloc(whole);
    } else if (kind < 8) {
        parcel = calloc(1, whole);
        if (parcel && !is_zero(parcel, whole))
            fail(worker, "calloc returned memory that is not zero", whole);
    } else {
        size_t alignment = (size_t)16 << random_below(&worker->random, kind == 8 ? 4 : 12);
        parcel = memalign(alignment, whole);
        if (!is_aligned(parcel, alignment)) fail(worker, "a block is not aligned", whole);
    }
    if (!parcel) fail(worker, "no memory", whole);
    if (malloc_usable_size(parcel) < whole)
        fail(worker, "the usable size is less than the requested size", whole);
    sign(worker, parcel, size);
    return parcel;
}

// Draws the same number of random numbers for an empty slot as for a full one. Therefore the
// results do not depend on the slots that other threads have filled.
static struct parcel* resize(struct worker* worker, struct parcel* parcel) {
    size_t size = pick_size(worker), old_size = 0;
    uint64_t old_seed = 0;
    if (parcel) {
        verify(worker, parcel);
        old_size = parcel->size;
        old_seed = parcel->seed;
    }
    struct parcel* resized = realloc(parcel, size + sizeof *parcel);
    if (!resized) fail(worker, "no memory", size);
    if (parcel) {
        bool same = resized->size == old_size && resized->seed == old_seed;
        size_t kept = size < old_size ? size : old_size;
        if (!same || !pattern_holds(resized->contents, kept, old_size, old_seed)) {
            fail(worker, "realloc lost contents", old_size);
        }
    }
    sign(worker, resized, size);
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

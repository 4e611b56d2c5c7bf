/*
 * Many threads allocate, resize, hand over and free blocks of all sizes, and every block's contents
 * are verified before it changes hands or dies. Threads live in generations: each inherits the live
 * blocks of one that has ended.
 *
 *     stress [--threads N] [--operations N] [--seed N]      (operations are per thread)
 *
 * What is asked for depends on the seed alone, never on timing, and so does the line it prints: two
 * allocators must give the same output. A fault ends it with exit status 1 (or a crash) and names
 * seed, thread and operation.
 */
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "subject.h"

enum { MOST_THREADS = 64, OWN = 400, TINY = 100, SHARED = 256, GENERATIONS = 8 };

// A block tells its own size and pattern, so that it can be verified by whoever gets it.
struct parcel {
    size_t size; // of the contents
    uint64_t seed;
    unsigned char contents[];
};

struct tiny {
    unsigned char* block;
    size_t size;
};

// What a thread owns, and the next generation inherits.
struct estate {
    struct random random;
    struct parcel* parcels[OWN];
    struct tiny tiny[TINY];
    unsigned thread;
    uint64_t operation;
    uint64_t bytes_asked_for;
};

static struct estate estates[MOST_THREADS];
static _Atomic(struct parcel*) shared[SHARED];
static unsigned thread_count = 4;
static uint64_t operations_each = 200000, seed = 1;

static __attribute__((noreturn)) void fail(const struct estate* estate, const char* what,
                                           size_t size) {
    dprintf(STDERR_FILENO, "stress: %s, size %zu (seed %llu, thread %u, operation %llu)\n", what,
            size, (unsigned long long)seed, estate->thread, (unsigned long long)estate->operation);
    _exit(1);
}

static size_t pick_size(struct estate* estate) {
    uint64_t kind = random_below(&estate->random, 4000);
    size_t most = kind < 3600 ? 1000 : kind < 3950 ? 40000 : kind < 3998 ? 700000 : 9u * MIB;
    size_t size = random_size(&estate->random, most);
    estate->bytes_asked_for += size;
    return size;
}

// The seed in the header is tied to the size, so that a header that was overwritten does not pass
// for a true one.
static void sign(struct estate* estate, struct parcel* parcel, size_t size) {
    parcel->size = size;
    parcel->seed = (random_next(&estate->random) << 32) | (uint32_t)(size * 2654435761u);
    pattern_fill(parcel->contents, size, parcel->seed);
}

static void verify(struct estate* estate, struct parcel* parcel) {
    if ((uint32_t)parcel->seed != (uint32_t)(parcel->size * 2654435761u))
        fail(estate, "a header is damaged", parcel->size);
    if (!pattern_holds(parcel->contents, parcel->size, parcel->size, parcel->seed)) {
        fail(estate, "contents are damaged", parcel->size);
    }
}

static void discard(struct estate* estate, struct parcel* parcel) {
    if (!parcel) return;
    verify(estate, parcel);
    parcel->seed = 0; // a second free, or a stale reader, finds a damaged header
    free(parcel);
}

static struct parcel* make(struct estate* estate) {
    size_t size = pick_size(estate), whole = size + sizeof(struct parcel);
    uint64_t kind = random_below(&estate->random, 10);
    struct parcel* parcel;
    if (kind < 6) {
        parcel = malloc(whole);
    } else if (kind < 8) {
        parcel = calloc(1, whole);
        if (parcel && !is_zero(parcel, whole)) fail(estate, "calloc gave what is not zero", whole);
    } else {
        size_t alignment = (size_t)16 << random_below(&estate->random, kind == 8 ? 4 : 12);
        parcel = memalign(alignment, whole);
        if (!is_aligned(parcel, alignment)) fail(estate, "a block is not aligned", whole);
    }
    if (!parcel) fail(estate, "no memory", whole);
    if (malloc_usable_size(parcel) < whole)
        fail(estate, "the usable size is less than was asked for", whole);
    sign(estate, parcel, size);
    return parcel;
}

// Draws as many random numbers for an empty slot as for a full one: what others have swapped in
// must not matter.
static struct parcel* resize(struct estate* estate, struct parcel* parcel) {
    size_t size = pick_size(estate), old_size = 0;
    uint64_t old_seed = 0;
    if (parcel) {
        verify(estate, parcel);
        old_size = parcel->size;
        old_seed = parcel->seed;
    }
    struct parcel* resized = realloc(parcel, size + sizeof *parcel);
    if (!resized) fail(estate, "no memory", size);
    if (parcel) {
        bool same = resized->size == old_size && resized->seed == old_seed;
        size_t kept = size < old_size ? size : old_size;
        if (!same || !pattern_holds(resized->contents, kept, old_size, old_seed)) {
            fail(estate, "realloc lost contents", old_size);
        }
    }
    sign(estate, resized, size);
    return resized;
}

// Blocks too small to describe themselves: 0 to 15 bytes.
static void renew_tiny(struct estate* estate, struct tiny* tiny) {
    if (tiny->block && !pattern_holds(tiny->block, tiny->size, tiny->size, tiny->size)) {
        fail(estate, "contents are damaged", tiny->size);
    }
    free(tiny->block);
    tiny->size = random_below(&estate->random, 16);
    tiny->block = malloc(tiny->size);
    if (!tiny->block) fail(estate, "no memory", tiny->size);
    pattern_fill(tiny->block, tiny->size, tiny->size);
}

static void operate(struct estate* estate) {
    uint64_t kind = random_below(&estate->random, 100);
    struct parcel** own = &estate->parcels[random_below(&estate->random, OWN)];
    estate->operation++;
    if (kind < 35) {
        discard(estate, *own);
        *own = make(estate);
    } else if (kind < 55) {
        discard(estate, *own);
        *own = NULL;
    } else if (kind < 70) {
        *own = resize(estate, *own);
    } else if (kind < 80) {
        renew_tiny(estate, &estate->tiny[random_below(&estate->random, TINY)]);
    } else if (kind < 90) { // put one up for others, and free what was there
        discard(estate,
                atomic_exchange(&shared[random_below(&estate->random, SHARED)], make(estate)));
    } else { // swap one with others, and go on with what was there
        if (*own) verify(estate, *own);
        *own = atomic_exchange(&shared[random_below(&estate->random, SHARED)], *own);
        if (*own) verify(estate, *own);
    }
}

static void* live(void* argument) {
    struct estate* estate = argument;
    for (uint64_t i = 0; i < operations_each / GENERATIONS; i++) operate(estate);
    return NULL;
}

static void run_generation(unsigned generation) {
    pthread_t threads[MOST_THREADS];
    for (unsigned i = 0; i < thread_count; i++) {
        if (pthread_create(&threads[i], NULL, live, &estates[(i + generation) % thread_count]) !=
            0) {
            perror("stress: cannot start a thread");
            _exit(2);
        }
    }
    for (unsigned i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
}

static void settle(void) {
    for (unsigned i = 0; i < thread_count; i++) {
        for (unsigned k = 0; k < OWN; k++) discard(&estates[i], estates[i].parcels[k]);
        for (unsigned k = 0; k < TINY; k++) free(estates[i].tiny[k].block);
    }
    for (unsigned k = 0; k < SHARED; k++) discard(&estates[0], shared[k]);
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
        estates[i].thread = i;
        estates[i].random.state = seed * 1000003 + i;
    }
    for (unsigned generation = 0; generation < GENERATIONS; generation++)
        run_generation(generation);
    settle();
    for (unsigned i = 0; i < thread_count; i++) {
        operations += estates[i].operation;
        bytes += estates[i].bytes_asked_for;
    }
    printf("seed %llu: %u threads, %llu operations, %llu bytes asked for, all contents verified\n",
           (unsigned long long)seed, thread_count, (unsigned long long)operations,
           (unsigned long long)bytes);
    return 0;
}

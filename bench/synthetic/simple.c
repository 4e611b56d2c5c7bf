// Sizes of one kind at a time: rounds of a few blocks of one size, and of a mix, freed in the
// order of a stack and in the order of allocation.
#include "synthetic.h"

#include <stdlib.h>

enum { HELD = 100, ROUNDS = 300000, ROUNDS_OF_THREAD = 100000 };
static const size_t sizes[] = {8, 16, 24, 32, 48, 64, 96, 128, 256, 512};
enum { SIZES = sizeof sizes / sizeof *sizes };

struct loop {
    uint64_t seed, sum;
    size_t rounds;
};

static void repeat(void* argument) {
    struct loop* l = argument;
    void* held[HELD];
    for (size_t round = 0; round < l->rounds; round++) {
        size_t bytes = sizes[round % SIZES];
        bool mixed = round % 4 == 3;
        for (unsigned i = 0; i < HELD; i++) {
            held[i] = take(mixed ? sizes[draw(&l->seed) % SIZES] : bytes);
            l->sum += bytes;
            if (mixed) continue;
            // Work of a program, so that malloc has the share that it has in the original.
            for (unsigned pass = 0; pass < 2; pass++) {
                fill(held[i], bytes);
                l->sum += sum_words(held[i], bytes);
            }
        }
        for (unsigned i = 0; i < HELD; i++) free(held[round % 2 == 0 ? i : HELD - 1 - i]);
    }
}

static uint64_t run(const struct extent* extent) {
    struct loop loop = {23, 0, scaled(extent, ROUNDS)};
    repeat(&loop);
    return loop.sum;
}

static uint64_t run_threads(const struct extent* extent) {
    struct loop loops[MOST_THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++)
        loops[i] = (struct loop){23 + i, 0, scaled(extent, ROUNDS_OF_THREAD)};
    in_threads(extent->threads, repeat, loops, sizeof *loops);
    for (unsigned i = 0; i < extent->threads; i++) sum += loops[i].sum;
    return sum;
}

const struct workload simple = {
    "simple",
    "one thread allocates and frees 100 blocks of one size, then of the next size",
    "the shortest path of malloc and free, without cache misses",
    "glibc's malloc-simple benchmark",
    "anything but the best case: the live set is a few KiB, and half of the work is in the loop",
    run,
};

const struct workload simple_threads = {
    "simple-threads",
    "the same in each thread",
    "whether threads share anything on the shortest path",
    "glibc's malloc-thread benchmark",
    "frees by other threads: there are none",
    run_threads,
};

// A random walk over many slots: an occupied slot is freed, an empty one is filled. Blocks are
// written and read as a program would.
#include "synthetic.h"

#include <stdlib.h>

enum { SLOTS = 1 << 16, STEPS = 15000000, STEPS_OF_THREAD = 4000000, WRITTEN = 136 };
enum { WRITTEN_BY_THREAD = 300 };

struct walk {
    uint64_t seed, sum;
    size_t steps, written; // at most that many bytes of each block are written
};

static void go(void* argument) {
    struct walk* w = argument;
    unsigned char** slot = calloc(SLOTS, sizeof *slot);
    for (size_t i = 0; i < w->steps; i++) {
        unsigned char** at = &slot[draw(&w->seed) % SLOTS];
        if (*at != NULL) {
            w->sum += (*at)[0];
            free(*at);
            *at = NULL;
        } else {
            size_t bytes = between_log(&w->seed, 8, 1024);
            *at = take(bytes);
            fill(*at, bytes < w->written ? bytes : w->written);
        }
    }
    for (size_t i = 0; i < SLOTS; i++) free(slot[i]);
    free(slot);
}

static uint64_t run(const struct extent* extent) {
    struct walk walk = {17, 0, scaled(extent, STEPS), WRITTEN};
    go(&walk);
    return walk.sum;
}

static uint64_t run_threads(const struct extent* extent) {
    struct walk walks[MOST_THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++)
        walks[i] = (struct walk){17 + i, 0, scaled(extent, STEPS_OF_THREAD), WRITTEN_BY_THREAD};
    in_threads(extent->threads, go, walks, sizeof *walks);
    for (unsigned i = 0; i < extent->threads; i++) sum += walks[i].sum;
    return sum;
}

const struct workload alloc_test = {
    "alloc-test",
    "one thread fills and frees random ones of 65,536 slots, 8 to 1,024 B",
    "a large live set in random order: locality of blocks and of metadata",
    "the alloc-test of OLogN Technologies: a random walk with written blocks",
    "the cost of a call alone: cache misses of the walk are a large part of the time",
    run,
};

const struct workload alloc_test_threads = {
    "alloc-test-threads",
    "each thread fills and frees random ones of its own 65,536 slots",
    "scaling of local calls over threads",
    "the alloc-test of OLogN Technologies, with a thread for each processor",
    "frees by other threads: there are none",
    run_threads,
};

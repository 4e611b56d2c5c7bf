// Many short threads, one after the other: each allocates blocks and ends, the main thread frees
// them. Memory that an allocator cannot reuse after a thread's end accumulates.
#include "synthetic.h"

#include <stdlib.h>

enum { THREADS = 10000, BLOCKS = 2 };

struct life {
    void* block[BLOCKS];
    uint64_t seed, sum;
};

static void live(void* argument) {
    struct life* life = argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t bytes = between_log(&life->seed, 16, 1024);
        life->block[i] = take(bytes);
        life->sum += bytes;
    }
}

static uint64_t run(const struct extent* extent) {
    struct life* life = calloc(1, sizeof *life);
    life->seed = 53;
    for (size_t i = 0, threads = scaled(extent, THREADS); i < threads; i++) {
        in_threads(1, live, life, sizeof *life);
        for (unsigned at = 0; at < BLOCKS; at++) free(life->block[at]);
    }
    uint64_t sum = life->sum;
    free(life);
    return sum;
}

const struct workload mleak = {
    "mleak",
    "10,000 threads in turn allocate 2 blocks each and end; the main thread frees the blocks",
    "the start and end of a thread's heap, and the reuse of its memory: watch the peak",
    "the mleak test of mimalloc-bench: memory lost when threads end",
    "threads that run at the same time; creating a thread is part of the time",
    run,
};

// False sharing: do blocks of different threads lie in one cache line?
#include "synthetic.h"

#include <stdlib.h>

enum { BYTES = 8, WRITES = 4000, ROUNDS = 100000 };

struct writer {
    char* given; // cache-scratch: a block that the main thread allocated
    size_t rounds;
    uint64_t sum;
};

static void write_often(volatile char* block) {
    for (unsigned i = 0; i < WRITES; i++) block[i % BYTES]++;
}

static void write_own(void* argument) {
    struct writer* w = argument;
    if (w->given != NULL) write_often(w->given);
    free(w->given);
    for (size_t i = 0; i < w->rounds; i++) {
        char* block = take_zeroed(1, BYTES);
        write_often(block);
        w->sum += (unsigned char)block[0];
        free(block);
    }
}

static uint64_t write_all(const struct extent* extent, bool given) {
    struct writer writers[MOST_THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++)
        writers[i] =
            (struct writer){given ? take_zeroed(1, BYTES) : NULL, scaled(extent, ROUNDS), 0};
    in_threads(extent->threads, write_own, writers, sizeof *writers);
    for (unsigned i = 0; i < extent->threads; i++) sum += writers[i].sum;
    return sum;
}

static uint64_t run_scratch(const struct extent* extent) {
    return write_all(extent, true);
}
static uint64_t run_thrash(const struct extent* extent) {
    return write_all(extent, false);
}

const struct workload cache_scratch = {
    "cache-scratch",
    "each thread frees a block that the main thread allocated, then allocates and writes own ones",
    "passive false sharing: a block freed by a thread must not be split between threads",
    "E. Berger and others, Hoard: a scalable memory allocator, 2000",
    "the speed of malloc: nearly all time is spent in writes",
    run_scratch,
};

const struct workload cache_thrash = {
    "cache-thrash",
    "each thread allocates a block of 8 B, writes to it 4,000 times and frees it",
    "active false sharing: small blocks of several threads in one cache line",
    "E. Berger and others, Hoard: a scalable memory allocator, 2000",
    "the speed of malloc: nearly all time is spent in writes",
    run_thrash,
};

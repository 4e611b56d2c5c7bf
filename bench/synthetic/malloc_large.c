// Blocks of 5 to 25 MiB, 20 live, replaced at random.
#include "synthetic.h"

#include <stdlib.h>
#include <string.h>

enum { LIVE = 20, STEPS = 500 };

static uint64_t run(const struct extent* extent) {
    void* slot[LIVE] = {NULL};
    uint64_t seed = 43, sum = 0;
    for (size_t i = 0, steps = scaled(extent, STEPS); i < steps; i++) {
        size_t at = draw(&seed) % LIVE;
        size_t bytes = between(&seed, 5 * MIB, 25 * MIB);
        free(slot[at]);
        slot[at] = take(bytes);
        memset(slot[at], (int)(i & 0x7F), bytes);
        sum += bytes;
    }
    for (unsigned i = 0; i < LIVE; i++) free(slot[i]);
    return sum;
}

const struct workload malloc_large = {
    "malloc-large",
    "20 live blocks of 5 to 25 MiB, replaced at random, every byte written",
    "mapping, unmapping and page faults: what is done with large freed memory",
    "the large-block test of mimalloc's benchmarks",
    "small blocks; the time is nearly all the kernel's, and depends on its huge pages",
    run,
};

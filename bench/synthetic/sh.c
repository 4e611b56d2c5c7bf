// Batches of small blocks in a skewed mix of sizes, freed partly in the order of allocation and
// partly in reverse. In sh8 the other threads free half of the blocks.
#include "synthetic.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { BATCH = 2500, ROUNDS = 6000, ROUNDS_OF_THREAD = 700, SHARED = 8192 };

static size_t draw_size(uint64_t* seed) {
    size_t kind = draw(seed) % 10;
    if (kind < 7) return between(seed, 4, 64);
    return kind < 9 ? between(seed, 65, 256) : between(seed, 257, 1000);
}

static uint64_t run_six(const struct extent* extent) {
    void** batch = calloc(BATCH, sizeof *batch);
    uint64_t seed = 61, sum = 0;
    size_t rounds = scaled(extent, ROUNDS);
    for (size_t round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < BATCH; i++) {
            size_t bytes = draw_size(&seed);
            batch[i] = take(bytes);
            sum += bytes;
        }
        // A third in order, a third again at the end, a third in reverse.
        for (unsigned i = 0; i < BATCH; i += 3) free(batch[i]);
        for (unsigned i = BATCH; i-- > 0;)
            if (i % 3 == 1) free(batch[i]);
        for (unsigned i = 2; i < BATCH; i += 3) free(batch[i]);
    }
    free(batch);
    return sum;
}

static _Atomic(void*) shared[SHARED];

struct member {
    uint64_t seed, sum;
    size_t rounds;
};

static void live(void* argument) {
    struct member* m = argument;
    void** batch = calloc(BATCH, sizeof *batch);
    for (size_t round = 0; round < m->rounds; round++) {
        for (unsigned i = 0; i < BATCH; i++) {
            size_t bytes = draw_size(&m->seed);
            batch[i] = take(bytes);
            m->sum += bytes;
        }
        for (unsigned i = 0; i < BATCH; i += 2)
            free(atomic_exchange(&shared[draw(&m->seed) % SHARED], batch[i]));
        for (unsigned i = BATCH; i-- > 0;)
            if (i % 2 == 1) free(batch[i]);
    }
    free(batch);
}

static uint64_t run_eight(const struct extent* extent) {
    struct member members[MOST_THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++)
        members[i] = (struct member){81 + i, 0, scaled(extent, ROUNDS_OF_THREAD)};
    in_threads(extent->threads, live, members, sizeof *members);
    for (unsigned i = 0; i < extent->threads; i++) sum += members[i].sum;
    for (unsigned i = 0; i < SHARED; i++) free(atomic_exchange(&shared[i], NULL));
    return sum;
}

const struct workload sh6 = {
    "sh6",
    "one thread allocates batches of 2,500 blocks, most of 4 to 64 B, frees them in mixed order",
    "the fast paths of small sizes, and free lists whose order does not match the addresses",
    "MicroQuill's SmartHeap benchmark with one thread: batches of small blocks",
    "long-lived blocks: nothing survives its round",
    run_six,
};

const struct workload sh8 = {
    "sh8",
    "threads allocate such batches; half of the blocks pass through a table to other threads",
    "frees by other threads in random order, mixed with local ones",
    "MicroQuill's SmartHeap benchmark with several threads",
    "an even load of the threads: the table is shared, and its cache lines move between processors",
    run_eight,
};

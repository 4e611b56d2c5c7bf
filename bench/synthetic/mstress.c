// Threads allocate batches of mixed sizes, retain some blocks, and exchange others through a
// shared table. Each block is filled with words that are verified before the free.
#include "synthetic.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { EXCHANGED = 1000, BATCH = 400, RETAINED = 4000, ROUNDS = 1500 };
static const uint64_t COOKIE = 0xC3A5C85C97CB3127u;

static _Atomic(uint64_t*) exchanged[EXCHANGED];

struct member {
    uint64_t seed, sum;
    size_t rounds;
};

static uint64_t* make(struct member* m) {
    size_t words = between_log(&m->seed, 2, 128);
    if (draw(&m->seed) % 256 == 0) words *= 32;
    uint64_t* block = take(words * sizeof *block);
    for (size_t i = 0; i < words; i++) block[i] = (words - i) ^ COOKIE;
    m->sum += words;
    return block;
}

static void destroy(uint64_t* block) {
    if (block == NULL) return;
    size_t words = (size_t)(block[0] ^ COOKIE);
    for (size_t i = 0; i < words; i++)
        if (block[i] != ((words - i) ^ COOKIE)) fail("mstress: a block was overwritten");
    free(block);
}

static void live(void* argument) {
    struct member* m = argument;
    uint64_t* batch[BATCH];
    uint64_t** retained = calloc(RETAINED, sizeof *retained);
    for (size_t round = 0; round < m->rounds; round++) {
        for (unsigned i = 0; i < BATCH; i++) batch[i] = make(m);
        for (unsigned i = 0; i < BATCH; i++) {
            size_t fate = draw(&m->seed) % 100;
            if (fate < 20) {
                uint64_t** slot = &retained[draw(&m->seed) % RETAINED];
                destroy(*slot);
                *slot = batch[i];
            } else if (fate < 40) {
                destroy(atomic_exchange(&exchanged[draw(&m->seed) % EXCHANGED], batch[i]));
            } else {
                destroy(batch[i]);
            }
        }
    }
    for (unsigned i = 0; i < RETAINED; i++) destroy(retained[i]);
    free(retained);
}

static uint64_t run(const struct extent* extent) {
    struct member members[MOST_THREADS];
    uint64_t sum = 0;
    // Two generations, so that blocks in the table outlive their threads.
    for (unsigned generation = 0; generation < 2; generation++) {
        for (unsigned i = 0; i < extent->threads; i++)
            members[i] = (struct member){31 + 97 * generation + i, 0, scaled(extent, ROUNDS)};
        in_threads(extent->threads, live, members, sizeof *members);
        for (unsigned i = 0; i < extent->threads; i++) sum += members[i].sum;
    }
    for (unsigned i = 0; i < EXCHANGED; i++) destroy(atomic_exchange(&exchanged[i], NULL));
    return sum;
}

const struct workload mstress = {
    "mstress",
    "threads allocate batches of 16 B to 32 KiB, retain a fifth and exchange a fifth",
    "frees by other threads; threads that end; blocks of different lifetimes side by side",
    "the stress test of mimalloc: objects that migrate between threads",
    "throughput of one thread; three quarters of the instructions verify blocks",
    run,
};

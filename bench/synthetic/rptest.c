// Threads allocate and free blocks of random sizes in batches and give each fourth batch to the
// next thread, which frees it.
#include "synthetic.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { BATCH = 200, HELD = 32, ROUNDS = 4000 };

struct batch {
    struct batch* next;
    void* block[BATCH];
};

struct worker {
    _Atomic(struct batch*) received; // a stack of batches from the other thread
    struct worker* next;
    uint64_t seed, sum;
    size_t rounds;
};

static void release(struct batch* batch) {
    while (batch != NULL) {
        struct batch* next = batch->next;
        for (unsigned i = 0; i < BATCH; i++) free(batch->block[i]);
        free(batch);
        batch = next;
    }
}

static void give(struct worker* to, struct batch* batch) {
    batch->next = atomic_load(&to->received);
    while (!atomic_compare_exchange_weak(&to->received, &batch->next, batch)) continue;
}

static void work(void* argument) {
    struct worker* w = argument;
    struct batch* held[HELD] = {NULL};
    for (size_t round = 0; round < w->rounds; round++) {
        struct batch* batch = take(sizeof *batch);
        batch->next = NULL;
        for (unsigned i = 0; i < BATCH; i++) {
            // The minimum of two draws: small sizes are more frequent.
            size_t one = between(&w->seed, 16, 8000), other = between(&w->seed, 16, 8000);
            size_t bytes = one < other ? one : other;
            batch->block[i] = take(bytes);
            w->sum += bytes;
        }
        if (round % 4 == 3) {
            give(w->next, batch);
        } else {
            size_t at = draw(&w->seed) % HELD;
            release(held[at]);
            held[at] = batch;
        }
        release(atomic_exchange(&w->received, NULL));
    }
    for (unsigned i = 0; i < HELD; i++) release(held[i]);
}

static uint64_t run(const struct extent* extent) {
    static struct worker workers[MOST_THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++) {
        struct worker* w = &workers[i];
        w->next = &workers[(i + 1) % extent->threads];
        w->seed = 71 + i;
        w->sum = 0;
        w->rounds = scaled(extent, ROUNDS);
    }
    in_threads(extent->threads, work, workers, sizeof *workers);
    for (unsigned i = 0; i < extent->threads; i++) {
        release(atomic_exchange(&workers[i].received, NULL));
        sum += workers[i].sum;
    }
    return sum;
}

const struct workload rptest = {
    "rptest",
    "threads hold 32 batches of 200 blocks of 16 to 8,000 B; the next thread frees each fourth",
    "blocks of up to two system pages, held for a while, a quarter of them freed elsewhere",
    "the benchmark of rpmalloc: random sizes, blocks passed between threads",
    "blocks above 8 KB; the cost of a queue with many producers",
    run,
};

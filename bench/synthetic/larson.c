// Each thread replaces random blocks of its table. After a number of steps it starts a successor,
// which takes over the table, and ends.
#include "synthetic.h"

#include <pthread.h>
#include <stdlib.h>

enum { SLOTS = 1000, GENERATIONS = 40, STEPS = 80000 };

struct lineage {
    void* slot[SLOTS];
    uint64_t seed, sum;
    size_t steps;
    unsigned generation;
};

static void* live(void* argument) {
    struct lineage* l = argument;
    for (size_t i = 0; i < l->steps; i++) {
        size_t at = between(&l->seed, 0, SLOTS - 1);
        size_t bytes = between(&l->seed, 8, 1000);
        free(l->slot[at]);
        l->slot[at] = take(bytes);
        l->sum += bytes;
    }
    return NULL;
}

static void generations(void* argument) {
    struct lineage* l = argument;
    for (l->generation = 0; l->generation < GENERATIONS; l->generation++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live, l) != 0) fail("no thread");
        pthread_join(thread, NULL);
    }
}

static uint64_t run(const struct extent* extent) {
    struct lineage* lines = calloc(extent->threads, sizeof *lines);
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++) {
        lines[i].seed = 11 + i;
        lines[i].steps = scaled(extent, STEPS);
    }
    in_threads(extent->threads, generations, lines, sizeof *lines);
    for (unsigned i = 0; i < extent->threads; i++) {
        sum += lines[i].sum;
        for (unsigned at = 0; at < SLOTS; at++) free(lines[i].slot[at]);
    }
    free(lines);
    return sum;
}

const struct workload larson = {
    "larson",
    "threads replace random blocks of 8 to 1,000 B; each thread is followed by a new one",
    "blocks that outlive their thread; frees of blocks that an ended thread allocated",
    "P. Larson and M. Krishnan, Memory allocation for long-running server applications, 1998",
    "a server that reuses its threads; sizes above 1 KB",
    run,
};

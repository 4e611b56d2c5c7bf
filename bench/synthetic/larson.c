// Each thread replaces random blocks of its table. After a number of steps it starts a successor,
// which takes over the table, and ends.
#include "synthetic.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1000, GENERATIONS = 40, STEPS = 80000, WRITTEN = 80 };

struct lineage {
    void* slot[SLOTS];
    size_t bytes[SLOTS];
    void (*release)(void*, size_t);
    uint64_t seed, sum;
    size_t steps;
    unsigned generation;
};

static void* live(void* argument) {
    struct lineage* l = argument;
    for (size_t i = 0; i < l->steps; i++) {
        size_t at = between(&l->seed, 0, SLOTS - 1);
        size_t bytes = between(&l->seed, 8, 1000);
        l->release(l->slot[at], l->bytes[at]);
        l->slot[at] = take(bytes);
        l->bytes[at] = bytes;
        l->sum += fill(l->slot[at], bytes < WRITTEN ? bytes : WRITTEN);
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

static void release_plain(void* block, size_t bytes) {
    (void)bytes;
    free(block);
}

// free_sized of C23, or else the operator of C++, of the library that has malloc. Blocks are then
// freed with their size. The C library has neither.
static void (*find_sized(void))(void*, size_t) {
    void (*function)(void*, size_t) = release_plain;
    void* found = dlsym(RTLD_DEFAULT, "free_sized");
    if (found == NULL) found = dlsym(RTLD_DEFAULT, "_ZdlPvm");
    if (found != NULL) memcpy(&function, &found, sizeof function);
    return function;
}

static uint64_t live_all(const struct extent* extent, void (*release)(void*, size_t)) {
    struct lineage* lines = calloc(extent->threads, sizeof *lines);
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++) {
        lines[i].seed = 11 + i;
        lines[i].release = release;
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

static uint64_t run(const struct extent* extent) {
    return live_all(extent, release_plain);
}
static uint64_t run_sized(const struct extent* extent) {
    return live_all(extent, find_sized());
}

const struct workload larson = {
    "larson",
    "threads replace random blocks of 8 to 1,000 B; each thread is followed by a new one",
    "blocks that outlive their thread; frees of blocks that an ended thread allocated",
    "P. Larson and M. Krishnan, Memory allocation for long-running server applications, 1998",
    "a server that reuses its threads; sizes above 1 KB",
    run,
};

const struct workload larson_sized = {
    "larson-sized",
    "the same; blocks are freed by free_sized or by C++'s sized delete where there is one",
    "whether an allocator uses the size that the program passes to free",
    "larson with sized deletion, as mimalloc's benchmarks have it",
    "anything new for the C library and for other allocators without a sized free: they call free",
    run_sized,
};

// Makes the same calls in each run: two threads allocate with all functions, from sites of
// different sizes, free most blocks and keep some. With an argument, as often as it demands.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 512 };

struct worker {
    uint64_t random;
    void* kept[KEPT];
};

static uint32_t next(struct worker* worker, uint32_t limit) {
    worker->random = worker->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(worker->random >> 33) % limit;
}

static __attribute__((noinline)) void* small(struct worker* worker) {
    return malloc(next(worker, 64));
}
static __attribute__((noinline)) void* middle(struct worker* worker) {
    return calloc(1 + next(worker, 8), 100 + next(worker, 400));
}
static __attribute__((noinline)) void* large(struct worker* worker) {
    return malloc(20000 + next(worker, 200000));
}
static __attribute__((noinline)) void* aligned(struct worker* worker) {
    return aligned_alloc(64, 64 * (1 + next(worker, 64)));
}
static __attribute__((noinline)) void* resized(void* block, struct worker* worker) {
    return realloc(block, 1 + next(worker, 5000));
}

static void round_of(struct worker* worker) {
    void** kept = &worker->kept[next(worker, KEPT)];
    uint32_t kind = next(worker, 100);
    if (kind < 15) {
        *kept = resized(*kept, worker);
        return;
    }
    free(*kept);
    *kept = kind < 60   ? small(worker)
            : kind < 85 ? middle(worker)
            : kind < 97 ? aligned(worker)
                        : large(worker);
}

static void* work(void* argument) {
    struct worker* worker = argument;
    uint64_t rounds = worker->random;
    worker->random = (uintptr_t)worker->kept[0];
    worker->kept[0] = NULL;
    for (uint64_t i = 0; i < rounds; i++) round_of(worker);
    return NULL;
}

int main(int count, char** arguments) {
    static struct worker workers[2];
    for (uintptr_t i = 0; i < 2; i++) {
        // One after another, so that each has the same number in each run.
        pthread_t thread;
        workers[i].random = count > 1 ? strtoull(arguments[1], NULL, 10) : 40000;
        workers[i].kept[0] = (void*)(i + 1);
        if (pthread_create(&thread, NULL, work, &workers[i]) != 0) return 1;
        pthread_join(thread, NULL);
    }
    return 0;
}

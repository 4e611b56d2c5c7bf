// Frees by other threads, for bench/remote/run.py.
//
//   remote_frees in-order|random THREADS [BLOCKS LOW HIGH ROUNDS]
//
// One thread holds BLOCKS blocks of LOW to HIGH bytes. In each round THREADS threads free all of
// them, one after the other if their frees are in order, and then the first thread allocates as
// many again. Prints one line of JSON, each figure in nanoseconds for each block:
//
//   free_ns     the least of all rounds: processor time of the process while the others free,
//               their start and end included
//   malloc_ns   the least of all rounds: processor time of the first thread while it allocates
//   total_ns    the least sum of the two in one round, of the whole process
//   worst_ns    the slowest malloc of the least slow round
//
// The functions phase_free and phase_malloc are not inlined: callgrind counts only them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS_MAX = 16 };

static size_t blocks = 200000;
static size_t low = 16;
static size_t high = 256;
static unsigned threads;
static void** slot;
static uint64_t seed = 0x9E3779B97F4A7C15u;

static uint64_t draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) void phase_free(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) free(slot[i]);
}

static uint64_t worst;

__attribute__((noinline)) void phase_malloc(const uint32_t* sizes, bool timed) {
    for (size_t i = 0; i < blocks; i++) {
        uint64_t begun = timed ? now_ns(CLOCK_MONOTONIC) : 0;
        slot[i] = malloc(sizes[i]);
        uint64_t took = timed ? now_ns(CLOCK_MONOTONIC) - begun : 0;
        if (took > worst) worst = took;
        *(volatile char*)slot[i] = 1;
    }
}

static void* free_share(void* argument) {
    size_t index = (size_t)(uintptr_t)argument;
    phase_free(blocks * index / threads, blocks * (index + 1) / threads);
    return NULL;
}

static void shuffle(void) {
    for (size_t i = blocks - 1; i > 0; i--) {
        size_t other = draw() % (i + 1);
        void* kept = slot[i];
        slot[i] = slot[other];
        slot[other] = kept;
    }
}

static void* map(size_t bytes) {
    void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(1);
    return at;
}

static void free_by_others(void) {
    pthread_t thread[THREADS_MAX];
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, free_share, (void*)(uintptr_t)i) != 0) exit(1);
    for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

int main(int count, char** arguments) {
    if (count < 3) return 2;
    bool random = strcmp(arguments[1], "random") == 0;
    threads = (unsigned)atoi(arguments[2]);
    if (threads == 0 || threads > THREADS_MAX) return 2;
    if (count > 3) blocks = strtoull(arguments[3], NULL, 10);
    if (count > 4) low = strtoull(arguments[4], NULL, 10);
    if (count > 5) high = strtoull(arguments[5], NULL, 10);
    unsigned rounds = count > 6 ? (unsigned)atoi(arguments[6]) : 12;

    slot = map(blocks * sizeof *slot);
    uint32_t* sizes = map(blocks * sizeof *sizes);
    for (size_t i = 0; i < blocks; i++) sizes[i] = (uint32_t)(low + draw() % (high - low + 1));
    for (size_t i = 0; i < blocks; i++) *(char*)(slot[i] = malloc(sizes[i])) = 1;

    uint64_t least[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    for (unsigned round = 0; round < rounds; round++) {
        if (random) shuffle();
        uint64_t process = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        free_by_others();
        uint64_t freed = now_ns(CLOCK_PROCESS_CPUTIME_ID) - process;
        uint64_t own = now_ns(CLOCK_THREAD_CPUTIME_ID);
        bool timed = round % 3 == 2;
        worst = 0;
        phase_malloc(sizes, timed);
        own = now_ns(CLOCK_THREAD_CPUTIME_ID) - own;
        uint64_t total = now_ns(CLOCK_PROCESS_CPUTIME_ID) - process;
        if (timed && worst < least[3]) least[3] = worst;
        if (timed) continue;
        if (freed < least[0]) least[0] = freed;
        if (own < least[1]) least[1] = own;
        if (total < least[2]) least[2] = total;
    }
    double each = (double)blocks;
    printf("{\"free_ns\": %.1f, \"malloc_ns\": %.1f, \"total_ns\": %.1f, \"worst_ns\": %lu}\n",
           (double)least[0] / each, (double)least[1] / each, (double)least[2] / each,
           (unsigned long)least[3]);
    return 0;
}

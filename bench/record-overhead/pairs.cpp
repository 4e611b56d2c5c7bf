/* pairs THREADS PAUSE_US BATCHES KIND: each thread times batches of 1000 pairs of 64 bytes, with a
 * pause between batches. KIND: `free` for malloc and free, `delete` for operator new and sized
 * delete, as in most C++ programs; `deep` for malloc and free below 16 calls. Prints one line: ns
 * an operation (half a pair), median and p99.9 over all batches, and mean over all time in batches.
 *
 * The median is the cost of the calls themselves; the mean also includes the waits for the
 * recorder. */
#include <new>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 1000, BYTES = 64 };

static bool deletes, deep;
static long batches;
static useconds_t pause_us;
static double* times; /* ns an operation, batch by batch, thread by thread */

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void malloc_and_free() {
    for (int i = 0; i < PAIRS; i++) {
        void* block = malloc(BYTES);
        __asm__ volatile("" : "+r"(block) : : "memory");
        free(block);
    }
}

static void new_and_delete() {
    for (int i = 0; i < PAIRS; i++) {
        void* block = ::operator new(BYTES);
        __asm__ volatile("" : "+r"(block) : : "memory");
        ::operator delete (block, size_t{BYTES});
    }
}

// Calls itself before it works, and is not left before the work is done.
__attribute__((noinline)) static int work_below(int calls) {
    if (calls == 0) {
        malloc_and_free();
        return 0;
    }
    int below = work_below(calls - 1);
    __asm__ volatile("" : "+r"(below)); // no loop instead of calls
    return below + 1;
}

static void batch_of_pairs() {
    if (deep) {
        volatile int below = work_below(16);
        (void)below;
    } else if (deletes) {
        new_and_delete();
    } else {
        malloc_and_free();
    }
}

static void* work(void* number) {
    double* mine = times + (intptr_t)number * batches;
    for (long batch = 0; batch < batches; batch++) {
        double began = now_ns();
        batch_of_pairs();
        mine[batch] = (now_ns() - began) / (2 * PAIRS);
        if (pause_us != 0) usleep(pause_us);
    }
    return NULL;
}

static int compare(const void* a, const void* b) {
    double x = *static_cast<const double*>(a);
    double y = *static_cast<const double*>(b);
    return (x > y) - (x < y);
}

int main(int count, char** arguments) {
    if (count != 5) return 2;
    deletes = strcmp(arguments[4], "delete") == 0;
    deep = strcmp(arguments[4], "deep") == 0;
    int threads = atoi(arguments[1]);
    pause_us = (useconds_t)atoi(arguments[2]);
    batches = atol(arguments[3]);
    long total = threads * batches;
    times = static_cast<double*>(calloc((size_t)total, sizeof *times));
    pthread_t ids[64];
    for (int i = 1; i < threads; i++) pthread_create(&ids[i], NULL, work, (void*)(intptr_t)i);
    work((void*)0);
    for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    double sum = 0;
    for (long i = 0; i < total; i++) sum += times[i];
    qsort(times, (size_t)total, sizeof *times, compare);
    printf("%.3f %.3f %.3f\n", times[total / 2], times[total - 1 - total / 1000],
           sum / (double)total);
    return 0;
}

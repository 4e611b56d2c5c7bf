/* Measures the cost of measuring without any code of the lab: the time of a pair of clock readings
 * around a call that does only what the lab's null allocator does. Compare its output with the rows
 * of the null allocator in `keel compare JOURNAL -a null --touch none`.
 *
 *     cc -O2 -o floor floor.c && ./floor [CALLS]
 *
 * Three calls: one that does nothing (a free), one that bumps a pointer up to an end and restarts
 * there (a malloc), and one that only moves a pointer, to separate the cost of the bump.
 * Nanoseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

enum { WINDOW = 256 << 10, LARGEST = 1 << 14 };

static _Alignas(4096) char window[WINDOW];
static _Thread_local uintptr_t next, limit;

static __attribute__((noinline)) void* nothing(size_t argument) {
    __asm__ volatile("" : : "r"(argument));
    return NULL;
}

static __attribute__((noinline)) void* move(size_t size) {
    uintptr_t block = next;
    next = block + 16;
    if (next == limit) next = (uintptr_t)window;
    __asm__ volatile("" : : "r"(size));
    return (void*)block;
}

static __attribute__((noinline, cold)) void* begin_anew(size_t size) {
    next = (uintptr_t)window + ((size + 15) & ~(size_t)15);
    return window;
}

static __attribute__((noinline)) void* bump(size_t size) {
    uintptr_t start = (next + 15) & ~(uintptr_t)15;
    uintptr_t end = start + ((size + 15) & ~(size_t)15);
    if (end > limit || start > end) return begin_anew(size);
    next = end;
    return (void*)start;
}

static uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t histogram[LARGEST];

/* The calls of one reading lie evenly over the step of the clock around it. */
static double median(long calls, int* step_found) {
    long below = 0;
    int reading = 0, step = LARGEST, last = -1;
    while (below + (long)histogram[reading] <= calls / 2) below += (long)histogram[reading++];
    for (int ticks = 0; ticks < LARGEST - 1; ticks++) {
        if (histogram[ticks] == 0) continue;
        if (last >= 0 && ticks - last < step) step = ticks - last;
        last = ticks;
    }
    double share = ((double)calls / 2 - (double)below) / (double)histogram[reading];
    *step_found = step;
    return reading + (share - 0.5) * step;
}

static void measure(const char* name, void* (*call_it)(size_t), long calls) {
    void* (*volatile function)(size_t) = call_it;
    memset(histogram, 0, sizeof histogram);
    next = (uintptr_t)window;
    limit = next + WINDOW;
    uint64_t first_ns = monotonic_ns(), first = __rdtsc(), sum = 0;
    for (long call = 0; call < calls; call++) {
        unsigned processor;
        size_t size = 16 + (size_t)(call * 7919 % 512);
        _mm_lfence();
        uint64_t begin = __rdtsc();
        void* block = function(size);
        uint64_t end = __rdtscp(&processor);
        _mm_lfence();
        __asm__ volatile("" : : "r"(block));
        uint64_t ticks = end - begin;
        sum += ticks;
        histogram[ticks < LARGEST ? ticks : LARGEST - 1]++;
    }
    double ticks_per_ns = (double)(__rdtsc() - first) / (double)(monotonic_ns() - first_ns);
    int step;
    double ticks = median(calls, &step);
    printf("%-8s p50 %.2f ns, mean %.1f ns, %ld calls, a step of %.2f ns\n", name,
           ticks / ticks_per_ns, (double)sum / (double)calls / ticks_per_ns, calls,
           step / ticks_per_ns);
}

int main(int count, char** arguments) {
    long calls = count > 1 ? atol(arguments[1]) : 1000000;
    measure("nothing", nothing, calls);
    measure("move", move, calls);
    measure("bump", bump, calls);
    return 0;
}

/* The floor of the instrument, measured without it: what a pair of clock readings around a call costs, if the call only
 * moves a pointer. Shares no code with the lab; prints the median and the mean in nanoseconds, for comparison with
 * the floor's row of `keel compare JOURNAL -a null --touch none`.
 *
 *     cc -O2 -o floor floor.c && ./floor [CALLS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

enum { WINDOW = 16 << 20, LARGEST = 1 << 14 };

static _Alignas(4096) char window[WINDOW];
static _Thread_local char* next;

static __attribute__((noinline)) void* bump(size_t size) {
    char* block = next;
    next += (size + 15) & ~(size_t)15;
    if (next > window + WINDOW) next = window;
    return block;
}

static uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int count, char** arguments) {
    long calls = count > 1 ? atol(arguments[1]) : 1000000;
    uint64_t* histogram = calloc(LARGEST, sizeof *histogram);
    void* (*volatile function)(size_t) = bump;
    next = window;
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
    long below = 0;
    int reading = 0, step = LARGEST, last = -1;
    while (below + (long)histogram[reading] <= calls / 2) below += (long)histogram[reading++];
    for (int ticks = 0; ticks < LARGEST - 1; ticks++) {
        if (histogram[ticks] == 0) continue;
        if (last >= 0 && ticks - last < step) step = ticks - last;
        last = ticks;
    }
    /* The calls of one reading lie evenly over the step of the clock around it. */
    double share = ((double)calls / 2 - (double)below) / (double)histogram[reading];
    double median = reading + (share - 0.5) * step;
    printf(
        "p50 %.2f ns (%.1f as the clock shows it), mean %.1f ns, %ld calls, %.4f ticks in a ns\n",
        median / ticks_per_ns, reading / ticks_per_ns, (double)sum / (double)calls / ticks_per_ns,
        calls, ticks_per_ns);
    return 0;
}

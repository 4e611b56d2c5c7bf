/* The recording's clock, read as cheaply as the machine allows. */
#ifndef KEEL_RECORDER_CLOCK_H
#define KEEL_RECORDER_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "journal/ring.h"

static inline uint64_t clock_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Ticks of `clock`, an enum kl_clock. No barrier: 10 ns here against 19 with one; the reader mends
 * the rare inversion between two threads (journal/ring.h, ORDER). */
static inline uint64_t clock_ticks(uint32_t clock) {
#if defined(__x86_64__)
    if (__builtin_expect(clock == KL_CLOCK_TSC, 1)) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (__builtin_expect(clock == KL_CLOCK_TSC, 1)) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return clock_monotonic();
}

#endif

// The recording's clock, read in the fastest way that the machine offers.
#ifndef KEEL_RECORDER_CLOCK_H
#define KEEL_RECORDER_CLOCK_H

#include "base/attributes.h"
#include "journal/ring.h"
#include <stdbool.h>
#include <stdint.h>
#if !defined(_WIN32)
#include <time.h>
#endif

// In nanoseconds.
#if defined(_WIN32)
uint64_t clock_monotonic(void); // windows.c
#else
KEEL_INLINE uint64_t clock_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif

// Returns the ticks of `clock`, an enum kl_clock. If `ordered`, the clock is read after all earlier
// loads. Then an event that depends on an event of another thread has a later time (journal/ring.h,
// ORDER). An ordered reading takes 19 ns, an unordered one 10 ns. Therefore a process with one
// thread reads the clock unordered.
KEEL_INLINE uint64_t clock_ticks(uint32_t clock, bool ordered) {
#if defined(__x86_64__)
    if (KEEL_LIKELY(clock == KL_CLOCK_TSC)) {
        unsigned processor;
        return ordered ? __builtin_ia32_rdtscp(&processor) : __builtin_ia32_rdtsc();
    }
#elif defined(__aarch64__)
    if (KEEL_LIKELY(clock == KL_CLOCK_TSC)) {
        uint64_t ticks;
        if (ordered) __asm__ volatile("isb" ::: "memory");
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
        return ticks;
    }
#endif
    return clock_monotonic();
}

#endif

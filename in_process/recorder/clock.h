// The recording's clock, read as cheaply as the machine allows.
#ifndef KEEL_RECORDER_CLOCK_H
#define KEEL_RECORDER_CLOCK_H

#include "base/attributes.h"
#include "journal/ring.h"
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

KEEL_INLINE uint64_t clock_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Ticks of `clock`, an enum kl_clock. If `ordered`, the clock is read after all earlier loads: an
// event that depends on one of another thread then has a later time (journal/ring.h, ORDER). That
// costs 19 ns here instead of 10, so a process with one thread reads it unordered, and so do frees.
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

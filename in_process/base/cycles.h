// The processor's time-stamp counter, for durations of slow paths: read without a system call. Its
// unit is constant while the process runs. To convert the unit to nanoseconds, a reader compares
// two readings with two readings of another clock.
#ifndef KEEL_BASE_CYCLES_H
#define KEEL_BASE_CYCLES_H

#include "base/attributes.h"
#include <stdint.h>

KEEL_INLINE uint64_t cycles_now(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0; // no such counter: all durations are 0
#endif
}

#endif

#include "caches.h"

#include "base/attributes.h"
#include "journal/ring.h"

// The chain: 16 of the page's 64 lines, in an order that no prefetcher expects. Each line contains
// the index of the next one.
enum { LINE_WORDS = 16, PAGE_WORDS = KL_PAGE_BYTES / 4, CHAIN_LINES = 16 };
#define LINE(place, next) [(place)*4 * LINE_WORDS] = (next)*4 * LINE_WORDS

static KEEL_ALIGNED(KL_PAGE_BYTES) const uint32_t chain[PAGE_WORDS] = {
    LINE(0, 7),  LINE(7, 14), LINE(14, 5), LINE(5, 12), LINE(12, 3), LINE(3, 10),
    LINE(10, 1), LINE(1, 8),  LINE(8, 15), LINE(15, 6), LINE(6, 13), LINE(13, 4),
    LINE(4, 11), LINE(11, 2), LINE(2, 9),  LINE(9, 0),
};

// The clock, read after all earlier loads and before all later ones.
KEEL_INLINE uint64_t fenced_ticks(void) {
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t now = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return now;
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(now)::"memory");
    return now;
#else
    return 0;
#endif
}

uint64_t caches_read(void) {
    const volatile uint32_t* words = chain;
    uint32_t at = 0;
    uint64_t began = fenced_ticks();
    for (int line = 0; line < CHAIN_LINES; line++) at = words[at];
    // The last load is used, so that the clock is not read before it.
    __asm__ volatile("" : : "r"(at) : "memory");
    return fenced_ticks() - began;
}

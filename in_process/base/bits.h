// Words as sets of bits, and powers of two.
#ifndef KEEL_BASE_BITS_H
#define KEEL_BASE_BITS_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KEEL_INLINE bool is_power_of_two(size_t x) {
    return x != 0 && (x & (x - 1)) == 0;
}

// `unit` is a power of two; the caller ensures that `x + unit` does not overflow.
KEEL_INLINE size_t round_up(size_t x, size_t unit) {
    return (x + unit - 1) & ~(unit - 1);
}
KEEL_INLINE size_t round_down(size_t x, size_t unit) {
    return x & ~(unit - 1);
}

// Index of the lowest / highest set bit; `x` is not 0.
KEEL_INLINE unsigned bit_lowest(uint64_t x) {
    return (unsigned)__builtin_ctzll(x);
}
KEEL_INLINE unsigned bit_highest(uint64_t x) {
    return 63u - (unsigned)__builtin_clzll(x);
}
KEEL_INLINE unsigned bit_count(uint64_t bits) {
#if defined(__x86_64__) && !defined(__POPCNT__)
    // The compiler would call a library function, which takes longer.
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(bits * UINT64_C(0x0101010101010101) >> 56);
#else
    return (unsigned)__builtin_popcountll(bits);
#endif
}

// `count` ones from bit `first` on; 1 <= count <= 64 and first + count <= 64.
KEEL_INLINE uint64_t bit_range(unsigned first, unsigned count) {
    return (~UINT64_C(0) >> (64 - count)) << first;
}

// Bits 0, count, 2 * count, ..; `count` is a power of two, at most 64.
KEEL_INLINE uint64_t bit_multiples(unsigned count) {
    return count == 64 ? 1 : ~UINT64_C(0) / ((UINT64_C(1) << count) - 1);
}

// The starts of runs of at least `count` ones: bit i of the result is set if bits i .. i+count-1 of
// `x` are all set. At most 7 steps, by doubling.
KEEL_INLINE uint64_t bit_runs(uint64_t x, unsigned count) {
    unsigned have = 1;
    while (have * 2 <= count) {
        x &= x >> have;
        have *= 2;
    }
    return have < count ? x & (x >> (count - have)) : x;
}

// floor(log2) of the longest run of ones, 0..6; `x` is not 0.
KEEL_INLINE unsigned bit_longest_log2(uint64_t x) {
    unsigned log = 0;
    for (unsigned have = 1; have < 64; have *= 2) {
        x &= x >> have;
        if (x == 0) break;
        log++;
    }
    return log;
}

// For a hash: bits of the value that are close together affect all higher bits of the result. The
// factor is 2^64 divided by the golden ratio.
KEEL_INLINE uint64_t bit_spread(uint64_t value) {
    return value * UINT64_C(0x9e3779b97f4a7c15);
}

#endif

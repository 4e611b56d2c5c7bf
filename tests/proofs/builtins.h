// Included before each source: definitions of these functions of the compiler as plain C, since
// Frama-C only declares them. They are part of what a proof assumes.
int __builtin_clzll(unsigned long long x);
int __builtin_clzll(unsigned long long x) {
    int count = 0;
    //@ loop unroll 64;
    for (unsigned long long bit = 1ull << 63; (x & bit) == 0; bit >>= 1) count++;
    return count;
}
int __builtin_ctzll(unsigned long long x);
int __builtin_ctzll(unsigned long long x) {
    int count = 0;
    //@ loop unroll 64;
    for (; (x & 1) == 0; x >>= 1) count++;
    return count;
}
// Frama-C ignores alignment, so sizes of structures differ; the compiler checks these assertions.
#define _Static_assert(condition, text) struct checked_by_the_compiler

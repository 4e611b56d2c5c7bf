// base/bits.h: every word position of a range; rounding and counting without wrap-around.
#include "base/bits.h"
#include "proof.h"

static void prove_ranges(void) {
    //@ loop unroll 64;
    for (unsigned count = 1; count <= 64; count++) {
        //@ loop unroll 64;
        for (unsigned first = 0; first + count <= 64; first++) {
            uint64_t bits = bit_range(first, count);
            unsigned lowest = bit_lowest(bits);
            unsigned highest = bit_highest(bits);
            //@ assert lowest == first;
            //@ assert highest == first + count - 1;
            uint64_t starts = bit_runs(bits, count);
            uint64_t only = (uint64_t)1 << first;
            //@ assert starts == only;
        }
    }
}

// Any word: the number of steps is bounded, and no shift exceeds the width.
static void prove_any_word(void) {
    uint64_t word = any_size(1, UINT64_MAX);
    unsigned log = bit_longest_log2(word);
    //@ assert log <= 6;
    //@ loop unroll 64;
    for (unsigned count = 1; count <= 64; count++) (void)bit_runs(word, count);
}

static void prove_rounding(void) {
    //@ loop unroll 40;
    for (unsigned bit = 0; bit < 40; bit++) {
        size_t unit = (size_t)1 << bit;
        size_t x = any_size(0, SIZE_MAX - unit);
        size_t up = round_up(x, unit);
        size_t down = round_down(x, unit);
        //@ assert up % unit == 0;
        //@ assert down % unit == 0;
    }
}

int main(void) {
    prove_ranges();
    prove_any_word();
    prove_rounding();
    return 0;
}

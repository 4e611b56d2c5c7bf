/* ever_new: allocates and frees a block of 1001 bytes from 2^18 different call stacks, once each.
 * One of 4096 blocks stays. */
#include "common.h"

enum { CALLS = 18 };

/* Which of the two calls comes next is a bit of the number. */
__attribute__((noinline)) static void* from_stack(unsigned number, int calls) {
    void* block;
    if (calls == 0) return kept(malloc(1001));
    if (number & 1) {
        block = from_stack(number >> 1, calls - 1);
    } else {
        block = from_stack(number >> 1, calls - 1);
        __asm__ volatile("" : "+r"(block));
    }
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(void) {
    for (unsigned number = 0; number < 1u << CALLS; number++) {
        void* block = from_stack(number, CALLS);
        if (number % 4096 != 0) free(block);
    }
    return 0;
}

// Pairs of a malloc and a free, counted by callgrind inside of `pairs`.
#include <stdlib.h>

__attribute__((noinline)) void pairs(unsigned long count) {
    for (unsigned long i = 0; i < count; i++) {
        void* block = malloc(64);
        __asm__ volatile("" : "+r"(block));
        free(block);
    }
}

int main(int count, char** arguments) {
    free(malloc(1)); // the first call finds the allocator
    if (count > 1) pairs(strtoul(arguments[1], NULL, 10));
    return 0;
}

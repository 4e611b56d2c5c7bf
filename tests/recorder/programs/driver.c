/* A model of a driver: a library that allocates for itself and for its user. */
#include <stdlib.h>

void* driver_make(void);
void* driver_grow(void* block);
void driver_free(void* block);

void* driver_make(void) {
    void* block = malloc(1003);
    __asm__ volatile("" : "+r"(block));
    return block;
}
void* driver_grow(void* block) {
    void* grown = realloc(block, 1005);
    __asm__ volatile("" : "+r"(grown));
    return grown;
}
void driver_free(void* block) {
    free(block);
    __asm__ volatile("");
}

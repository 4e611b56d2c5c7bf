// A library for plugins.c.
#include <stddef.h>
#include <stdlib.h>

void* plugin_allocate(size_t size);
void* plugin_allocate(size_t size) {
    void* block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

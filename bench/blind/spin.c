/* The C library's malloc with SPIN empty steps before each allocation: an allocator whose cost is
 * set by its environment. bench/blind compares it with itself. */
#include <stddef.h>
#include <stdlib.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static unsigned long steps;

__attribute__((constructor)) static void read_steps(void) {
    const char* text = getenv("SPIN");
    steps = text ? strtoul(text, NULL, 10) : 0;
}

static void spin(void) {
    for (unsigned long step = steps; step != 0; step--) {
        __asm__ volatile("" ::: "memory");
    }
}

void* malloc(size_t size) {
    spin();
    return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
    spin();
    return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
    spin();
    return __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
    spin();
    return __libc_memalign(alignment, size);
}

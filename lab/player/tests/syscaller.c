/* An allocator that makes system calls with its own `syscall` instruction, not through libc. */
#include <stddef.h>

static long map(size_t bytes) {
    register long flags __asm__("r10") = 0x22;
    register long file __asm__("r8") = -1;
    register long offset __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(9L), "D"(0L), "S"(bytes), "d"(3L), "r"(flags), "r"(file), "r"(offset)
                     : "rcx", "r11", "memory");
    return result;
}

void* own_malloc(size_t size) {
    long block = map(size ? size : 1);
    return block < 0 ? NULL : (void*)block;
}

void own_free(void* block) {
    (void)block;
}

void* own_calloc(size_t count, size_t size) {
    return own_malloc(count * size);
}

void* own_realloc(void* block, size_t size) {
    (void)block;
    return own_malloc(size);
}

void* own_memalign(size_t alignment, size_t size) {
    (void)alignment;
    return own_malloc(size);
}

// A malloc that lacks a part of the family: in the program, or in a library that is preloaded
// before Keel. OWN_VERSION: the functions are defined only in the version of the C library that
// programs ask for, which dlsym does not find. OWN_CHOSEN: they are chosen at load time (IFUNC),
// some before this library's addresses are relocated.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

bool own_heap_has(const void* block);
#if defined(OWN_CHOSEN)
#pragma GCC visibility push(hidden)
#endif
void* own_malloc(size_t size);
void own_free(void* block);
void* own_calloc(size_t count, size_t size);
void* own_realloc(void* block, size_t size);
void* own_memalign(size_t alignment, size_t size);
#if defined(OWN_CHOSEN)
#pragma GCC visibility pop
#endif

static char pool[16 << 20] __attribute__((aligned(4096)));
static size_t used;

static void* take(size_t size, size_t alignment) {
    size_t at = (used + 16 + alignment - 1) / alignment * alignment;
    if (size > sizeof pool - at) return NULL;
    used = at + size;
    memcpy(pool + at - sizeof size, &size, sizeof size);
    return pool + at;
}
bool own_heap_has(const void* block) {
    return (uintptr_t)block - (uintptr_t)pool < sizeof pool;
}

void* own_malloc(size_t size) {
    return take(size, 16);
}
void own_free(void* block) {
    if (block == NULL || own_heap_has(block)) return;
    (void)!write(2, "FAIL free of a block of another heap\n", 37);
    _exit(1);
}
void* own_calloc(size_t count, size_t size) {
    return take(count * size, 16);
}
void* own_realloc(void* block, size_t size) {
    size_t before = 0;
    void* resized = take(size, 16);
    if (block != NULL) memcpy(&before, (char*)block - sizeof before, sizeof before);
    if (resized != NULL && before > 0) memcpy(resized, block, before < size ? before : size);
    return resized;
}
void* own_memalign(size_t alignment, size_t size) {
    return take(size, alignment);
}

#if defined(OWN_VERSION)
#define PUBLISH(name) __asm__(".symver own_" #name ", " #name "@" OWN_VERSION);
#elif defined(OWN_CHOSEN)
#define PUBLISH(name)                                                                              \
    static __typeof__(own_##name)* choose_##name(void) {                                           \
        return own_##name;                                                                         \
    }                                                                                              \
    extern __typeof__(own_##name) name __attribute__((ifunc("choose_" #name)));
#else
#define PUBLISH(name) extern __typeof__(own_##name) name __attribute__((alias("own_" #name)));
#endif
PUBLISH(malloc)
PUBLISH(free)
PUBLISH(calloc)
PUBLISH(realloc)
PUBLISH(memalign)

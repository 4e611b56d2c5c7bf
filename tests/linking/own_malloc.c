// A program with a malloc of its own, which lacks a part of the family, under a preloaded Keel: the
// blocks of the other functions must be those that its free knows.
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char pool[16 << 20] __attribute__((aligned(4096)));
static size_t used;

static void* take(size_t size, size_t alignment) {
    size_t at = (used + 16 + alignment - 1) / alignment * alignment;
    if (size > sizeof pool - at) return NULL;
    used = at + size;
    memcpy(pool + at - sizeof size, &size, sizeof size);
    return pool + at;
}
static bool is_own(const void* block) {
    return (uintptr_t)block - (uintptr_t)pool < sizeof pool;
}

void* malloc(size_t size) {
    return take(size, 16);
}
void free(void* block) {
    if (block == NULL || is_own(block)) return;
    (void)!write(2, "FAIL free of a block of another heap\n", 37);
    _exit(1);
}
void* calloc(size_t count, size_t size) {
    return take(count * size, 16);
}
void* realloc(void* block, size_t size) {
    size_t before = 0;
    void* resized = take(size, 16);
    if (block != NULL) memcpy(&before, (char*)block - sizeof before, sizeof before);
    if (resized != NULL && before > 0) memcpy(resized, block, before < size ? before : size);
    return resized;
}
void* memalign(size_t alignment, size_t size) {
    return take(size, alignment);
}

extern void* operator_new(size_t size) __asm__("_Znwm") __attribute__((weak));
extern void operator_delete(void* block) __asm__("_ZdlPv") __attribute__((weak));

static unsigned failed;
static void expect_own(const char* function, void* block) {
    if (is_own(block)) return;
    failed++;
    printf("FAIL %s: a block of another heap\n", function);
}

int main(void) {
    void* block = reallocarray(NULL, 10, 10);
    expect_own("reallocarray of NULL", block);
    if (is_own(block)) {
        strcpy(block, "content");
        block = reallocarray(block, 100, 10);
        expect_own("reallocarray", block);
        failed += block == NULL || strcmp(block, "content") != 0;
    }
    expect_own("pvalloc", pvalloc(100));
    expect_own("valloc", valloc(100));
    expect_own("aligned_alloc", aligned_alloc(64, 100));
    failed += posix_memalign(&block, 256, 100) != 0 || (uintptr_t)block % 256 != 0;
    expect_own("posix_memalign", block);
    if (operator_new != NULL) {
        expect_own("operator new", operator_new(50));
        operator_delete(malloc(20));
    }
    printf("%u failed, 0 skipped\n", failed);
    return failed > 0 || operator_new == NULL;
}

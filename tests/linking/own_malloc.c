// A program whose malloc is that of own_heap.c, which lacks a part of the family, under a preloaded
// Keel: the blocks of the other functions must be those that its free knows.
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool own_heap_has(const void* block);

extern void* operator_new(size_t size) __asm__("_Znwm") __attribute__((weak));
extern void operator_delete(void* block) __asm__("_ZdlPv") __attribute__((weak));

static unsigned failed;
static void expect_own(const char* function, void* block) {
    if (own_heap_has(block)) return;
    failed++;
    printf("FAIL %s: a block of another heap\n", function);
}

int main(void) {
    expect_own("malloc", malloc(10));
    void* block = reallocarray(NULL, 10, 10);
    expect_own("reallocarray of NULL", block);
    if (own_heap_has(block)) {
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

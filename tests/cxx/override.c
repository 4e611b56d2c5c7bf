// keel/keel-override.h: the names of libc are Keel's in this file only.
#include "check.h"
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include <keel/keel-override.h>

// The functions of libc still exist beside the macros.
static void* (*const libc_malloc)(size_t) = malloc;
static void (*const libc_free)(void*) = free;

TEST(every_name_returns_blocks_of_keel) {
    void* posix = NULL;
    CHECK_EQUAL(posix_memalign(&posix, 64, 100), 0);
    void* blocks[] = {
        malloc(100),
        calloc(10, 10),
        realloc(malloc(10), 1000),
        aligned_alloc(64, 100),
        strdup("a"),
        strndup("abc", 2),
        realpath("/proc/self", NULL),
        posix,
        memalign(128, 10),
        valloc(10),
        pvalloc(10),
        reallocarray(NULL, 10, 10),
        reallocf(NULL, 10),
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK_WITH(kl_contains(blocks[i]), "block %zu", i);
        CHECK(malloc_usable_size(blocks[i]) > 0 && malloc_size(blocks[i]) > 0);
        free(blocks[i]);
    }
    CHECK(malloc_good_size(100) >= 100);
    cfree(malloc(10));
    free_sized(malloc(10), 10);
    free_aligned_sized(aligned_alloc(64, 128), 64, 128);
}

TEST(names_without_a_call_stay_libcs) {
    void* block = libc_malloc(100);
    CHECK(block != NULL && !kl_contains(block));
    libc_free(block);
    struct table {
        void* (*malloc)(size_t);
    } table = {libc_malloc};
    CHECK(table.malloc == dlsym(RTLD_DEFAULT, "malloc"));
}

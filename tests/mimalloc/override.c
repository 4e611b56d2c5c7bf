// mimalloc-override.h: the names of libc and of Windows are mimalloc's in this file.
#include "check.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <mimalloc-override.h>

TEST(overridden_names) {
    void* posix = NULL;
    CHECK_EQUAL(posix_memalign(&posix, 64, 10), 0);
    void* other = NULL;
    CHECK_EQUAL(_posix_memalign(&other, 64, 10), 0);
    void* blocks[] = {
        malloc(10),
        calloc(10, 10),
        realloc(NULL, 10),
        strdup("a"),
        strndup("abc", 2),
        realpath("/proc", NULL),
        reallocf(NULL, 10),
        valloc(10),
        pvalloc(10),
        reallocarray(NULL, 10, 10),
        memalign(64, 10),
        aligned_alloc(64, 64),
        posix,
        other,
        _recalloc(NULL, 10, 10),
        _strdup("a"),
        _strndup("abc", 2),
        _wcsdup(L"a"),
        _mbsdup((const unsigned char*)"a"),
        _aligned_malloc(10, 64),
        _aligned_realloc(NULL, 10, 64),
        _aligned_recalloc(NULL, 10, 10, 64),
        _aligned_offset_malloc(10, 64, 8),
        _aligned_offset_realloc(NULL, 10, 64, 8),
        _aligned_offset_recalloc(NULL, 10, 10, 64, 8),
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK_WITH(mi_is_in_heap_region(blocks[i]), "block %zu", i);
        CHECK(malloc_size(blocks[i]) > 0 && malloc_usable_size(blocks[i]) == _msize(blocks[i]));
        CHECK(_aligned_msize(blocks[i], 64, 0) > 0 && _expand(blocks[i], 1) == blocks[i]);
        if (i % 3 == 0)
            free(blocks[i]);
        else if (i % 3 == 1)
            cfree(blocks[i]);
        else
            _aligned_free(blocks[i]);
    }
    char* copy = NULL;
    size_t length = 0;
    setenv("MI_TEST", "value", 1);
    CHECK(_dupenv_s(&copy, &length, "MI_TEST") == 0 && strcmp(copy, "value") == 0);
    free(copy);
    wchar_t* wide = NULL;
    CHECK(_wdupenv_s(&wide, &length, L"MI_TEST") != 0 && wide == NULL);
    void* block = realloc(malloc(10), 0);
    CHECK(block != NULL);
    free(block);
}

// The names of the C runtimes of Windows, in a program that is linked with Keel.
#include "check.h"
#include "memory.h"
#include <direct.h>
#include <errno.h>
#include <keel/keel.h>
#include <malloc.h>
#include <string.h>
#include <wchar.h>

// msvcrt.dll exports it; the header of mingw-w64 lacks it.
size_t _aligned_msize(void* block, size_t alignment, size_t offset);

TEST(a_size_is_at_least_the_requested_one) {
    for (size_t size = 1; size < 40u * MIB; size = size * 3 + 1) {
        char* block = malloc(size);
        CHECK(kl_contains(block) && _msize(block) >= size);
        memset(block, 1, _msize(block));
        free(block);
    }
}

TEST(expand_stays_in_place_or_fails) {
    char* block = malloc(1000);
    size_t usable = _msize(block);
    CHECK(_expand(block, usable) == block && _expand(block, 10) == block);
    errno = 0;
    CHECK(_expand(block, 100u * MIB) == NULL && errno == ENOMEM);
    free(block);
}

TEST(recalloc_zeroes_what_it_adds) {
    char* block = calloc(10, 10);
    memset(block, 7, 100);
    block = _recalloc(block, 1000, 100);
    CHECK(kl_contains(block));
    for (int i = 0; i < 100; i++) CHECK(block[i] == 7);
    CHECK(is_zero_between(block, _msize(block) < 112 ? 100 : 112, 100000));
    free(block);
}

TEST(aligned_blocks_of_every_alignment) {
    for (size_t alignment = 8; alignment <= 4u * MIB; alignment *= 2) {
        char* block = _aligned_malloc(1000, alignment);
        CHECK(is_aligned(block, alignment) && kl_contains(block));
        memset(block, 5, 1000);
        block = _aligned_realloc(block, 200000, alignment);
        CHECK(is_aligned(block, alignment) && block[999] == 5);
        CHECK(_aligned_msize(block, alignment, 0) >= 200000);
        block = _aligned_recalloc(block, 3, 100000, alignment);
        CHECK(is_aligned(block, alignment) && block[0] == 5 && block[299999] == 0);
        _aligned_free(block);
    }
    errno = 0;
    CHECK(_aligned_malloc(100, 24) == NULL && errno == EINVAL);
    _aligned_free(NULL);
}

TEST(blocks_aligned_at_an_offset) {
    for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
        for (size_t offset = 0; offset < 64; offset += 8) {
            char* block = _aligned_offset_malloc(1000, alignment, offset);
            CHECK(is_aligned(block + offset, alignment));
            memset(block, 5, 1000);
            block = _aligned_offset_realloc(block, 5000, alignment, offset);
            CHECK(is_aligned(block + offset, alignment) && block[999] == 5);
            block = _aligned_offset_recalloc(block, 2, 10000, alignment, offset);
            CHECK(is_aligned(block + offset, alignment) && block[0] == 5 && block[19999] == 0);
            _aligned_free(block);
        }
    }
}

TEST(copies_of_texts_are_blocks_of_keel) {
    char* text = _strdup("a text");
    char* second = strdup(text);
    wchar_t* wide = _wcsdup(L"a wide text");
    CHECK(kl_contains(text) && kl_contains(second) && kl_contains(wide));
    CHECK(strcmp(second, "a text") == 0 && wcscmp(wide, L"a wide text") == 0);
    free(text);
    free(second);
    free(wide);
}

TEST(blocks_of_the_runtime_are_freed_and_moved) {
    for (int i = 0; i < 1000; i++) {
        char* folder = _getcwd(NULL, 0);
        char* path = _fullpath(NULL, ".", 0);
        CHECK(!kl_contains(folder) && _msize(folder) > strlen(folder));
        path = realloc(path, 5000);
        CHECK(kl_contains(path) && _stricmp(path, folder) == 0);
        free(folder);
        free(path);
    }
}

TEST(recalloc_moves_a_block_of_the_runtime) {
    for (int i = 0; i < 1000; i++) {
        char* path = _fullpath(NULL, ".", 0);
        char* folder = _getcwd(NULL, 0);
        size_t size = _msize(path);
        path = _recalloc(path, 10, 500);
        CHECK(kl_contains(path) && _stricmp(path, folder) == 0);
        CHECK(is_zero_between(path, size, _msize(path)));
        free(folder);
        free(path);
    }
    char* whole = _getcwd(NULL, 0);
    CHECK(_recalloc(whole, SIZE_MAX / 2, 3) == NULL && _msize(whole) > strlen(whole));
    char* part = _recalloc(whole, 2, 1);
    CHECK(kl_contains(part) && _msize(part) >= 2);
    free(part);
}

// The program may destroy it meanwhile.
TEST(a_heap_of_the_program_is_not_asked) {
    HANDLE heap = HeapCreate(0, 0, 0);
    char* block = HeapAlloc(heap, 0, 3000);
    CHECK(block != NULL && _msize(block) == 0);
    CHECK(HeapValidate(heap, 0, block) && HeapDestroy(heap));
}

TEST(a_block_of_the_heap_of_the_process_is_returned_to_it) {
    HANDLE heap = GetProcessHeap();
    char* block = HeapAlloc(heap, 0, 3000);
    CHECK(HeapValidate(heap, 0, block));
    free(block);
    CHECK(!HeapValidate(heap, 0, block));
}

// Exceptions look up the code's functions in this table by a binary search.
TEST(the_table_of_functions_is_in_order) {
    const char* base = (const char*)GetModuleHandleW(NULL);
    const IMAGE_DOS_HEADER* first = (const void*)base;
    const IMAGE_NT_HEADERS* headers = (const void*)(base + first->e_lfanew);
    const IMAGE_DATA_DIRECTORY* place =
        &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXCEPTION];
    const RUNTIME_FUNCTION* functions = (const void*)(base + place->VirtualAddress);
    size_t count = place->Size / sizeof *functions;
    CHECK(count > 100);
    for (size_t i = 1; i < count; i++)
        CHECK(functions[i - 1].EndAddress <= functions[i].BeginAddress);
}

// The names of mimalloc 1.6.3 for heaps, in C.
#include "check.h"
#include "memory.h"

#include <string.h>

#include <mimalloc.h>

TEST(creating_and_ending_heaps) {
    mi_heap_t* backing = mi_heap_get_backing();
    const struct mi_heap_s* same = backing;
    CHECK(mi_heap_get_default() == same);
    mi_heap_t* heap = mi_heap_new();
    CHECK(mi_heap_set_default(heap) == backing && mi_heap_get_default() == heap);
    void* block = mi_malloc(100);
    CHECK(mi_heap_contains_block(heap, block) && mi_check_owned(block));
    CHECK(mi_heap_set_default(backing) == heap);
    CHECK(!mi_check_owned(block));
    mi_heap_collect(heap, true);
    mi_heap_delete(heap); // the block stays live
    memset(block, 1, 100);
    mi_free(block);
    for (int i = 0; i < 100; i++) {
        heap = mi_heap_new();
        for (int k = 0; k < 1000; k++) memset(mi_heap_malloc(heap, 1000), 1, 1000);
        mi_heap_destroy(heap);
    }
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
    mi_heap_delete(NULL);
    mi_heap_destroy(NULL);
    mi_heap_collect(NULL, false);
}

TEST(blocks_of_heaps) {
    mi_heap_t* heap = mi_heap_new();
    void* blocks[9];
    size_t count = 0;
    blocks[count++] = mi_heap_malloc(heap, 100);
    blocks[count++] = mi_heap_malloc_small(heap, 100);
    blocks[count++] = mi_heap_mallocn(heap, 10, 10);
    CHECK(is_zero_between(blocks[count++] = mi_heap_zalloc(heap, 100), 0, 100));
    CHECK(is_zero_between(blocks[count++] = mi_heap_calloc(heap, 10, 10), 0, 100));
    CHECK(strcmp(blocks[count++] = mi_heap_strdup(heap, "text"), "text") == 0);
    CHECK(strcmp(blocks[count++] = mi_heap_strndup(heap, "text", 2), "te") == 0);
    CHECK(strcmp(blocks[count++] = mi_heap_realpath(heap, "/proc/self/..", NULL), "/proc") == 0);
    blocks[count++] = mi_heap_realloc(heap, NULL, 100);
    for (size_t i = 0; i < count; i++) {
        CHECK_WITH(mi_heap_contains_block(heap, blocks[i]), "block %zu", i);
        CHECK(mi_heap_check_owned(heap, blocks[i]));
    }
    CHECK(!mi_heap_check_owned(heap, (char*)blocks[0] + 1));
    CHECK(!mi_heap_contains_block(NULL, blocks[0]) && !mi_heap_check_owned(NULL, blocks[0]));
    pattern_fill(blocks[0], 100, 1);
    blocks[0] = mi_heap_realloc(heap, blocks[0], 10000);
    blocks[0] = mi_heap_reallocn(heap, blocks[0], 100, 1000);
    CHECK(pattern_holds(blocks[0], 100, 100, 1));
    blocks[0] = mi_heap_realloc(heap, blocks[0], 0);
    CHECK(blocks[0] != NULL && mi_heap_contains_block(heap, blocks[0]));
    CHECK(mi_heap_reallocf(heap, blocks[0], SIZE_MAX / 2) == NULL);
    for (size_t i = 1; i < count; i++) mi_free(blocks[i]);
    mi_heap_delete(heap);
}

TEST(aligned_blocks_of_heaps) {
    mi_heap_t* heap = mi_heap_new();
    for (size_t alignment = 32; alignment <= 65536; alignment *= 8) {
        char* blocks[] = {mi_heap_malloc_aligned(heap, 1000, alignment),
                          mi_heap_zalloc_aligned(heap, 1000, alignment),
                          mi_heap_calloc_aligned(heap, 10, 100, alignment)};
        char* inner[] = {mi_heap_malloc_aligned_at(heap, 1000, alignment, 8),
                         mi_heap_zalloc_aligned_at(heap, 1000, alignment, 8),
                         mi_heap_calloc_aligned_at(heap, 10, 100, alignment, 8)};
        for (int i = 0; i < 3; i++) {
            CHECK(is_aligned(blocks[i], alignment) && is_aligned(inner[i] + 8, alignment));
            CHECK(i == 0 ||
                  (is_zero_between(blocks[i], 0, 1000) && is_zero_between(inner[i], 0, 1000)));
            pattern_fill(blocks[i], 1000, 5);
            pattern_fill(inner[i], 1000, 6);
            blocks[i] = mi_heap_realloc_aligned(heap, blocks[i], 7000, alignment);
            inner[i] = mi_heap_realloc_aligned_at(heap, inner[i], 7000, alignment, 8);
            CHECK(is_aligned(blocks[i], alignment) && is_aligned(inner[i] + 8, alignment));
            CHECK(pattern_holds(blocks[i], 1000, 1000, 5) &&
                  pattern_holds(inner[i], 1000, 1000, 6));
            mi_free(blocks[i]);
            mi_free(inner[i]);
        }
    }
    mi_heap_destroy(heap);
}

TEST(zeroing_blocks_of_heaps) {
    mi_heap_t* heap = mi_heap_new();
    char* plain = mi_heap_zalloc(heap, 100);
    char* aligned = mi_heap_zalloc_aligned(heap, 100, 256);
    char* inner = mi_heap_zalloc_aligned_at(heap, 100, 256, 16);
    for (size_t size = 100; size < 300000; size *= 3) {
        memset(plain, 0x55, size);
        memset(aligned, 0x55, size);
        memset(inner, 0x55, size);
        if (size % 2 == 0) {
            plain = mi_heap_rezalloc(heap, plain, 3 * size);
            aligned = mi_heap_rezalloc_aligned(heap, aligned, 3 * size, 256);
            inner = mi_heap_rezalloc_aligned_at(heap, inner, 3 * size, 256, 16);
        } else {
            plain = mi_heap_recalloc(heap, plain, 3, size);
            aligned = mi_heap_recalloc_aligned(heap, aligned, 3, size, 256);
            inner = mi_heap_recalloc_aligned_at(heap, inner, 3, size, 256, 16);
        }
        CHECK(is_zero_between(plain, size, 3 * size) && is_zero_between(aligned, size, 3 * size) &&
              is_zero_between(inner, size, 3 * size));
        CHECK(is_aligned(aligned, 256) && is_aligned(inner + 16, 256));
    }
    mi_heap_destroy(heap);
}

TEST(blocks_of_heaps_by_type) {
    mi_heap_t* heap = mi_heap_new();
    double* one = mi_heap_malloc_tp(heap, double);
    double* zero = mi_heap_zalloc_tp(heap, double);
    double* ten = mi_heap_calloc_tp(heap, double, 10);
    double* more = mi_heap_mallocn_tp(heap, double, 10);
    CHECK(*zero == 0 && is_zero_between(ten, 0, 10 * sizeof *ten) &&
          mi_heap_contains_block(heap, one));
    more = mi_heap_reallocn_tp(heap, more, double, 1000);
    ten = mi_heap_recalloc_tp(heap, ten, double, 1000);
    CHECK(mi_usable_size(more) >= 8000 && is_zero_between(ten, 0, 8000));
    mi_heap_destroy(heap);
}

struct seen {
    const mi_heap_t* heap;
    size_t areas, blocks, used, stop_after;
};

static bool look(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t block_size,
                 void* argument) {
    struct seen* seen = argument;
    const struct mi_heap_area_s* same = area;
    CHECK(heap == seen->heap && same->blocks != NULL && block_size == area->block_size &&
          block_size >= 100);
    CHECK(area->used * block_size <= area->committed && area->committed <= area->reserved);
    if (block == NULL) {
        seen->areas++;
        seen->used += area->used;
        return true;
    }
    CHECK((char*)block >= (char*)area->blocks &&
          (char*)block + block_size <= (char*)area->blocks + area->reserved);
    return ++seen->blocks != seen->stop_after;
}

TEST(visits_of_heaps) {
    mi_heap_t* heap = mi_heap_new();
    mi_block_visit_fun* visitor = look;
    for (int i = 0; i < 1000; i++) CHECK(mi_heap_malloc(heap, 100) != NULL);
    struct seen areas = {.heap = heap}, blocks = areas, few = areas;
    few.stop_after = 10;
    CHECK(mi_heap_visit_blocks(heap, false, visitor, &areas) && areas.areas > 0);
    CHECK_EQUAL(areas.blocks, 0);
    CHECK_EQUAL(areas.used, 1000);
    CHECK(mi_heap_visit_blocks(heap, true, visitor, &blocks));
    CHECK_EQUAL(blocks.blocks, 1000);
    CHECK(!mi_heap_visit_blocks(heap, true, visitor, &few));
    CHECK_EQUAL(few.blocks, 10);
    mi_heap_destroy(heap);
}

static bool count_all(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                      size_t block_size, void* argument) {
    struct seen* seen = argument;
    CHECK(heap == seen->heap && block_size == area->block_size);
    if (block != NULL) seen->blocks++;
    return true;
}

TEST(visits_of_the_backing_heap) {
    mi_heap_t* heap = mi_heap_get_backing();
    struct seen before = {.heap = heap}, after = before;
    CHECK(mi_heap_visit_blocks(heap, true, count_all, &before));
    for (size_t i = 0; i < 1000; i++) CHECK(mi_malloc(1 + i * 100) != NULL);
    CHECK(mi_heap_visit_blocks(heap, true, count_all, &after));
    CHECK_EQUAL(after.blocks, before.blocks + 1000);
    CHECK(!mi_heap_visit_blocks(NULL, true, count_all, &after));
}

/* The heap functions of keel/mimalloc.h. Include that header, not this one. */
#ifndef KEEL_MIMALLOC_HEAPS_H
#define KEEL_MIMALLOC_HEAPS_H

#include "keel/heap.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdio.h>
#include <stdlib.h>
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the functions are also C */
#endif

/* Resizing to 0 bytes returns a block in mimalloc and frees the block in Keel. */
static inline size_t keel_mi_size(size_t size) KEEL_NOEXCEPT {
    return size == 0 ? 1 : size;
}

/* Returns count * size. If the product overflows, returns SIZE_MAX, for which every allocation
 * fails. */
static inline size_t keel_mi_product(size_t count, size_t size) KEEL_NOEXCEPT {
    return size != 0 && count > SIZE_MAX / size ? SIZE_MAX : keel_mi_size(count * size);
}

#ifndef __cplusplus
/* Ends the process if there is no memory, because C has no exceptions. */
static inline void* keel_mi_or_end(void* block) {
    if (block != NULL) return block;
    fputs("keel: out of memory in mi_new\n", stderr);
    abort();
}
#endif

/* --- Heaps and their blocks ------------------------------------------------------------------- */

struct mi_heap_s;
typedef struct mi_heap_s mi_heap_t;

/* The same heap with Keel's type. */
static inline kl_heap_t* keel_mi_heap(const mi_heap_t* heap) KEEL_NOEXCEPT {
    return (kl_heap_t*)(uintptr_t)heap;
}

static inline mi_heap_t* mi_heap_new(void) KEEL_NOEXCEPT {
    return (mi_heap_t*)kl_heap_new();
}
static inline void mi_heap_delete(mi_heap_t* heap) KEEL_NOEXCEPT {
    if (heap != NULL) kl_heap_delete(keel_mi_heap(heap));
}
static inline void mi_heap_destroy(mi_heap_t* heap) KEEL_NOEXCEPT {
    if (heap != NULL) kl_heap_destroy(keel_mi_heap(heap));
}
static inline mi_heap_t* mi_heap_set_default(mi_heap_t* heap) KEEL_NOEXCEPT {
    return (mi_heap_t*)kl_heap_set_default(keel_mi_heap(heap));
}
static inline mi_heap_t* mi_heap_get_default(void) KEEL_NOEXCEPT {
    return (mi_heap_t*)kl_heap_default();
}
static inline mi_heap_t* mi_heap_get_backing(void) KEEL_NOEXCEPT {
    return (mi_heap_t*)kl_heap_backing();
}
static inline void mi_heap_collect(mi_heap_t* heap, bool force) KEEL_NOEXCEPT {
    if (heap != NULL) kl_heap_collect(keel_mi_heap(heap), force);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_malloc(mi_heap_t* heap,
                                                         size_t size) KEEL_NOEXCEPT {
    return kl_heap_malloc(keel_mi_heap(heap), size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_zalloc(mi_heap_t* heap,
                                                         size_t size) KEEL_NOEXCEPT {
    return kl_heap_zalloc(keel_mi_heap(heap), size);
}
static inline KEEL_API_ALLOCATES(2, 3) void* mi_heap_calloc(mi_heap_t* heap, size_t count,
                                                            size_t size) KEEL_NOEXCEPT {
    return kl_heap_calloc(keel_mi_heap(heap), count, size);
}
static inline KEEL_API_ALLOCATES(2, 3) void* mi_heap_mallocn(mi_heap_t* heap, size_t count,
                                                             size_t size) KEEL_NOEXCEPT {
    return kl_heap_mallocn(keel_mi_heap(heap), count, size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_malloc_small(mi_heap_t* heap,
                                                               size_t size) KEEL_NOEXCEPT {
    return kl_heap_malloc(keel_mi_heap(heap), size);
}
static inline KEEL_API_RESIZES(3) void* mi_heap_realloc(mi_heap_t* heap, void* block,
                                                        size_t size) KEEL_NOEXCEPT {
    return kl_heap_realloc(keel_mi_heap(heap), block, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(3, 4) void* mi_heap_reallocn(mi_heap_t* heap, void* block,
                                                            size_t count,
                                                            size_t size) KEEL_NOEXCEPT {
    return kl_heap_realloc(keel_mi_heap(heap), block, keel_mi_product(count, size));
}
static inline KEEL_API_RESIZES(3) void* mi_heap_reallocf(mi_heap_t* heap, void* block,
                                                         size_t size) KEEL_NOEXCEPT {
    return kl_heap_reallocf(keel_mi_heap(heap), block, keel_mi_size(size));
}
static inline char* mi_heap_strdup(mi_heap_t* heap, const char* string) KEEL_NOEXCEPT {
    return kl_heap_strdup(keel_mi_heap(heap), string);
}
static inline char* mi_heap_strndup(mi_heap_t* heap, const char* string,
                                    size_t length) KEEL_NOEXCEPT {
    return kl_heap_strndup(keel_mi_heap(heap), string, length);
}
static inline char* mi_heap_realpath(mi_heap_t* heap, const char* path,
                                     char* resolved) KEEL_NOEXCEPT {
    return kl_heap_realpath(keel_mi_heap(heap), path, resolved);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_malloc_aligned(mi_heap_t* heap, size_t size,
                                                                 size_t alignment) KEEL_NOEXCEPT {
    return kl_heap_aligned_alloc(keel_mi_heap(heap), alignment, size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_malloc_aligned_at(mi_heap_t* heap, size_t size,
                                                                    size_t alignment,
                                                                    size_t offset) KEEL_NOEXCEPT {
    return kl_heap_aligned_alloc_at(keel_mi_heap(heap), alignment, offset, size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_zalloc_aligned(mi_heap_t* heap, size_t size,
                                                                 size_t alignment) KEEL_NOEXCEPT {
    return kl_heap_aligned_calloc(keel_mi_heap(heap), alignment, 1, size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_heap_zalloc_aligned_at(mi_heap_t* heap, size_t size,
                                                                    size_t alignment,
                                                                    size_t offset) KEEL_NOEXCEPT {
    return kl_heap_aligned_calloc_at(keel_mi_heap(heap), alignment, offset, 1, size);
}
static inline KEEL_API_ALLOCATES(2,
                                 3) void* mi_heap_calloc_aligned(mi_heap_t* heap, size_t count,
                                                                 size_t size,
                                                                 size_t alignment) KEEL_NOEXCEPT {
    return kl_heap_aligned_calloc(keel_mi_heap(heap), alignment, count, size);
}
static inline KEEL_API_ALLOCATES(2,
                                 3) void* mi_heap_calloc_aligned_at(mi_heap_t* heap, size_t count,
                                                                    size_t size, size_t alignment,
                                                                    size_t offset) KEEL_NOEXCEPT {
    return kl_heap_aligned_calloc_at(keel_mi_heap(heap), alignment, offset, count, size);
}
static inline KEEL_API_RESIZES(3) void* mi_heap_realloc_aligned(mi_heap_t* heap, void* block,
                                                                size_t size,
                                                                size_t alignment) KEEL_NOEXCEPT {
    return kl_heap_aligned_realloc(keel_mi_heap(heap), block, alignment, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(3) void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* block,
                                                                   size_t size, size_t alignment,
                                                                   size_t offset) KEEL_NOEXCEPT {
    return kl_heap_aligned_realloc_at(keel_mi_heap(heap), block, alignment, offset,
                                      keel_mi_size(size));
}

static inline KEEL_API_RESIZES(3) void* mi_heap_rezalloc(mi_heap_t* heap, void* block,
                                                         size_t size) KEEL_NOEXCEPT {
    return kl_heap_rezalloc(keel_mi_heap(heap), block, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(3, 4) void* mi_heap_recalloc(mi_heap_t* heap, void* block,
                                                            size_t count,
                                                            size_t size) KEEL_NOEXCEPT {
    return kl_heap_rezalloc(keel_mi_heap(heap), block, keel_mi_product(count, size));
}
static inline KEEL_API_RESIZES(3) void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* block,
                                                                 size_t size,
                                                                 size_t alignment) KEEL_NOEXCEPT {
    return kl_heap_aligned_rezalloc(keel_mi_heap(heap), block, alignment, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(3) void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* block,
                                                                    size_t size, size_t alignment,
                                                                    size_t offset) KEEL_NOEXCEPT {
    return kl_heap_aligned_rezalloc_at(keel_mi_heap(heap), block, alignment, offset,
                                       keel_mi_size(size));
}
static inline KEEL_API_RESIZES(3,
                               4) void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* block,
                                                                 size_t count, size_t size,
                                                                 size_t alignment) KEEL_NOEXCEPT {
    return kl_heap_aligned_rezalloc(keel_mi_heap(heap), block, alignment,
                                    keel_mi_product(count, size));
}
static inline KEEL_API_RESIZES(3,
                               4) void* mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* block,
                                                                    size_t count, size_t size,
                                                                    size_t alignment,
                                                                    size_t offset) KEEL_NOEXCEPT {
    return kl_heap_aligned_rezalloc_at(keel_mi_heap(heap), block, alignment, offset,
                                       keel_mi_product(count, size));
}

/* --- Inspect heaps ---------------------------------------------------------------------------- */

static inline bool mi_heap_contains_block(mi_heap_t* heap, const void* block) KEEL_NOEXCEPT {
    return heap != NULL && kl_heap_contains(keel_mi_heap(heap), block);
}

/* Returns false for addresses at which no block can begin. */
static inline bool mi_heap_check_owned(mi_heap_t* heap, const void* address) KEEL_NOEXCEPT {
    if (heap == NULL || (uintptr_t)address % sizeof(void*) != 0) return false;
    return kl_heap_owns(keel_mi_heap(heap), address);
}

static inline bool mi_check_owned(const void* address) KEEL_NOEXCEPT {
    return mi_heap_check_owned(mi_heap_get_default(), address);
}

typedef struct mi_heap_area_s {
    void* blocks;
    size_t reserved;
    size_t committed;
    size_t used; /* live blocks, as in mimalloc, whose first documentation stated bytes */
    size_t block_size;
} mi_heap_area_t;

typedef bool mi_block_visit_fun(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                                size_t block_size, void* argument);

struct keel_mi_visit {
    const mi_heap_t* heap;
    mi_block_visit_fun* visitor;
    void* argument;
};

static inline bool keel_mi_visit_one(const struct kl_heap_area* area, void* block, void* argument) {
    const struct keel_mi_visit* visit = (const struct keel_mi_visit*)argument;
    const size_t used = area->block_bytes == 0 ? 1 : area->used_bytes / area->block_bytes;
    const mi_heap_area_t shown = {area->blocks, area->reserved_bytes, area->carved_bytes, used,
                                  area->block_bytes};
    return visit->visitor(visit->heap, &shown, block, area->block_bytes, visit->argument);
}

static inline bool mi_heap_visit_blocks(const mi_heap_t* heap, bool blocks,
                                        mi_block_visit_fun* visitor, void* argument) {
    if (heap == NULL) return false;
    struct keel_mi_visit visit = {heap, visitor, argument};
    return kl_heap_visit(keel_mi_heap(heap), blocks, keel_mi_visit_one, &visit);
}

/* --- Allocate by type ------------------------------------------------------------------------- */

#define mi_heap_malloc_tp(heap, type) KEEL_API_AS(type, mi_heap_malloc(heap, sizeof(type)))
#define mi_heap_zalloc_tp(heap, type) KEEL_API_AS(type, mi_heap_zalloc(heap, sizeof(type)))
#define mi_heap_calloc_tp(heap, type, count)                                                       \
    KEEL_API_AS(type, mi_heap_calloc(heap, count, sizeof(type)))
#define mi_heap_mallocn_tp(heap, type, count)                                                      \
    KEEL_API_AS(type, mi_heap_mallocn(heap, count, sizeof(type)))
#define mi_heap_reallocn_tp(heap, block, type, count)                                              \
    KEEL_API_AS(type, mi_heap_reallocn(heap, block, count, sizeof(type)))
#define mi_heap_recalloc_tp(heap, block, type, count)                                              \
    KEEL_API_AS(type, mi_heap_recalloc(heap, block, count, sizeof(type)))

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif

// The functions of interpose_names.c.
#ifndef KEEL_RECORDER_NAMES_H
#define KEEL_RECORDER_NAMES_H

#include <stdint.h>

enum name_kind {
    NAME_ALLOCATE, // returns a new block
    NAME_STRING,   // returns a new block with a string, or the argument `block`
    NAME_STORE,    // stores a new block in *block, and returns 0 or an error number
    NAME_FREE,
    NAME_RESIZE,  // returns the resized block, which may have moved
    NAME_EXPAND,  // returns the block if it could be resized in place
    NAME_EXTEND,  // the same, but returns the usable size
    NAME_DESTROY, // frees all blocks of the heap that is the first argument
};

// Positions of the arguments, from 1; 0: the function has no such argument.
struct name {
    uint8_t kind;
    uint8_t block;
    uint8_t size;
    uint8_t count; // of elements of `size`
    uint8_t align;
    uint8_t flags;            // of jemalloc
    uint8_t zero;             // 1: the block's bytes are zero
    uint8_t frees_on_failure; // 1: a call that fails frees the block
    const char* visit;        // for NAME_DESTROY: the function that visits the heap's blocks, and
    const char* backing;      // the one that returns the heap that cannot be destroyed
};

// In the order of strcmp.
// clang-format off
#define ALLOCATOR_NAMES(each) \
    each(_rjem_aligned_alloc, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(_rjem_calloc, NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(_rjem_dallocx, NAME_FREE, .block = 1) \
    each(_rjem_free, NAME_FREE, .block = 1) \
    each(_rjem_malloc, NAME_ALLOCATE, .size = 1) \
    each(_rjem_mallocx, NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(_rjem_memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(_rjem_posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(_rjem_rallocx, NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(_rjem_realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(_rjem_sdallocx, NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(_rjem_valloc, NAME_ALLOCATE, .size = 1) \
    each(_rjem_xallocx, NAME_EXTEND, .block = 1, .size = 2) \
    each(dallocx, NAME_FREE, .block = 1) \
    each(je_aligned_alloc, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(je_calloc, NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(je_dallocx, NAME_FREE, .block = 1) \
    each(je_free, NAME_FREE, .block = 1) \
    each(je_malloc, NAME_ALLOCATE, .size = 1) \
    each(je_mallocx, NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(je_memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(je_posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(je_rallocx, NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(je_realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(je_sdallocx, NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(je_valloc, NAME_ALLOCATE, .size = 1) \
    each(je_xallocx, NAME_EXTEND, .block = 1, .size = 2) \
    each(kl_aligned_alloc, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(kl_aligned_alloc_at, NAME_ALLOCATE, .size = 3) \
    each(kl_aligned_calloc, NAME_ALLOCATE, .size = 3, .count = 2, .align = 1, .zero = 1) \
    each(kl_aligned_calloc_at, NAME_ALLOCATE, .size = 4, .count = 3, .zero = 1) \
    each(kl_aligned_realloc, NAME_RESIZE, .block = 1, .size = 3, .align = 2) \
    each(kl_aligned_realloc_at, NAME_RESIZE, .block = 1, .size = 4) \
    each(kl_aligned_recalloc, NAME_RESIZE, .block = 1, .size = 4, .count = 3, .align = 2) \
    each(kl_aligned_recalloc_at, NAME_RESIZE, .block = 1, .size = 5, .count = 4) \
    each(kl_aligned_rezalloc, NAME_RESIZE, .block = 1, .size = 3, .align = 2) \
    each(kl_aligned_rezalloc_at, NAME_RESIZE, .block = 1, .size = 4) \
    each(kl_calloc, NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(kl_expand, NAME_EXPAND, .block = 1, .size = 2) \
    each(kl_free, NAME_FREE, .block = 1) \
    each(kl_free_aligned_sized, NAME_FREE, .block = 1, .size = 3, .align = 2) \
    each(kl_free_sized, NAME_FREE, .block = 1, .size = 2) \
    each(kl_heap_aligned_alloc, NAME_ALLOCATE, .size = 3, .align = 2) \
    each(kl_heap_aligned_alloc_at, NAME_ALLOCATE, .size = 4) \
    each(kl_heap_aligned_calloc, NAME_ALLOCATE, .size = 4, .count = 3, .align = 2, .zero = 1) \
    each(kl_heap_aligned_calloc_at, NAME_ALLOCATE, .size = 5, .count = 4, .zero = 1) \
    each(kl_heap_aligned_realloc, NAME_RESIZE, .block = 2, .size = 4, .align = 3) \
    each(kl_heap_aligned_realloc_at, NAME_RESIZE, .block = 2, .size = 5) \
    each(kl_heap_aligned_recalloc, NAME_RESIZE, .block = 2, .size = 5, .count = 4, .align = 3) \
    each(kl_heap_aligned_recalloc_at, NAME_RESIZE, .block = 2, .size = 6, .count = 5) \
    each(kl_heap_aligned_rezalloc, NAME_RESIZE, .block = 2, .size = 4, .align = 3) \
    each(kl_heap_aligned_rezalloc_at, NAME_RESIZE, .block = 2, .size = 5) \
    each(kl_heap_calloc, NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(kl_heap_destroy, NAME_DESTROY, .visit = "kl_heap_visit", .backing = "kl_heap_backing") \
    each(kl_heap_malloc, NAME_ALLOCATE, .size = 2) \
    each(kl_heap_mallocn, NAME_ALLOCATE, .size = 3, .count = 2) \
    each(kl_heap_realloc, NAME_RESIZE, .block = 2, .size = 3) \
    each(kl_heap_reallocf, NAME_RESIZE, .block = 2, .size = 3, .frees_on_failure = 1) \
    each(kl_heap_reallocn, NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(kl_heap_realpath, NAME_STRING, .block = 3) \
    each(kl_heap_recalloc, NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(kl_heap_rezalloc, NAME_RESIZE, .block = 2, .size = 3) \
    each(kl_heap_strdup, NAME_STRING) \
    each(kl_heap_strndup, NAME_STRING) \
    each(kl_heap_zalloc, NAME_ALLOCATE, .size = 2, .zero = 1) \
    each(kl_malloc, NAME_ALLOCATE, .size = 1) \
    each(kl_mallocn, NAME_ALLOCATE, .size = 2, .count = 1) \
    each(kl_memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(kl_partition_aligned_alloc, NAME_ALLOCATE, .size = 3, .align = 2) \
    each(kl_partition_calloc, NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(kl_partition_malloc, NAME_ALLOCATE, .size = 2) \
    each(kl_posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(kl_pvalloc, NAME_ALLOCATE, .size = 1) \
    each(kl_realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(kl_reallocarray, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(kl_reallocf, NAME_RESIZE, .block = 1, .size = 2, .frees_on_failure = 1) \
    each(kl_reallocn, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(kl_realpath, NAME_STRING, .block = 2) \
    each(kl_recalloc, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(kl_rezalloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(kl_strdup, NAME_STRING) \
    each(kl_strndup, NAME_STRING) \
    each(kl_ucalloc, NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(kl_ufree, NAME_FREE, .block = 1) \
    each(kl_umalloc, NAME_ALLOCATE, .size = 1) \
    each(kl_urealloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(kl_valloc, NAME_ALLOCATE, .size = 1) \
    each(kl_zalloc, NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(mallocx, NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(mi_aligned_alloc, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(mi_aligned_offset_recalloc, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_aligned_recalloc, NAME_RESIZE, .block = 1, .size = 3, .count = 2, .align = 4) \
    each(mi_calloc, NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(mi_calloc_aligned, NAME_ALLOCATE, .size = 2, .count = 1, .align = 3, .zero = 1) \
    each(mi_calloc_aligned_at, NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(mi_cfree, NAME_FREE, .block = 1) \
    each(mi_expand, NAME_EXPAND, .block = 1, .size = 2) \
    each(mi_free, NAME_FREE, .block = 1) \
    each(mi_free_aligned, NAME_FREE, .block = 1) \
    each(mi_free_size, NAME_FREE, .block = 1) \
    each(mi_free_size_aligned, NAME_FREE, .block = 1) \
    each(mi_heap_alloc_new, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_alloc_new_n, NAME_ALLOCATE, .size = 3, .count = 2) \
    each(mi_heap_calloc, NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(mi_heap_calloc_aligned, NAME_ALLOCATE, .size = 3, .count = 2, .align = 4, .zero = 1) \
    each(mi_heap_calloc_aligned_at, NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(mi_heap_destroy, NAME_DESTROY, .visit = "mi_heap_visit_blocks", \
         .backing = "mi_heap_get_backing") \
    each(mi_heap_malloc, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_malloc_aligned, NAME_ALLOCATE, .size = 2, .align = 3) \
    each(mi_heap_malloc_aligned_at, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_malloc_small, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_mallocn, NAME_ALLOCATE, .size = 3, .count = 2) \
    each(mi_heap_realloc, NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_realloc_aligned, NAME_RESIZE, .block = 2, .size = 3, .align = 4) \
    each(mi_heap_realloc_aligned_at, NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_reallocf, NAME_RESIZE, .block = 2, .size = 3, .frees_on_failure = 1) \
    each(mi_heap_reallocn, NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(mi_heap_realpath, NAME_STRING, .block = 3) \
    each(mi_heap_recalloc, NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(mi_heap_recalloc_aligned, NAME_RESIZE, .block = 2, .size = 4, .count = 3, .align = 5) \
    each(mi_heap_recalloc_aligned_at, NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(mi_heap_rezalloc, NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_rezalloc_aligned, NAME_RESIZE, .block = 2, .size = 3, .align = 4) \
    each(mi_heap_rezalloc_aligned_at, NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_strdup, NAME_STRING) \
    each(mi_heap_strndup, NAME_STRING) \
    each(mi_heap_zalloc, NAME_ALLOCATE, .size = 2, .zero = 1) \
    each(mi_heap_zalloc_aligned, NAME_ALLOCATE, .size = 2, .align = 3, .zero = 1) \
    each(mi_heap_zalloc_aligned_at, NAME_ALLOCATE, .size = 2, .zero = 1) \
    each(mi_malloc, NAME_ALLOCATE, .size = 1) \
    each(mi_malloc_aligned, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(mi_malloc_aligned_at, NAME_ALLOCATE, .size = 1) \
    each(mi_malloc_small, NAME_ALLOCATE, .size = 1) \
    each(mi_mallocn, NAME_ALLOCATE, .size = 2, .count = 1) \
    each(mi_memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(mi_new, NAME_ALLOCATE, .size = 1) \
    each(mi_new_aligned, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(mi_new_aligned_nothrow, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(mi_new_n, NAME_ALLOCATE, .size = 2, .count = 1) \
    each(mi_new_nothrow, NAME_ALLOCATE, .size = 1) \
    each(mi_new_realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_new_reallocn, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(mi_pvalloc, NAME_ALLOCATE, .size = 1) \
    each(mi_realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_realloc_aligned, NAME_RESIZE, .block = 1, .size = 2, .align = 3) \
    each(mi_realloc_aligned_at, NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_reallocarray, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_reallocf, NAME_RESIZE, .block = 1, .size = 2, .frees_on_failure = 1) \
    each(mi_reallocn, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_realpath, NAME_STRING, .block = 2) \
    each(mi_recalloc, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_recalloc_aligned, NAME_RESIZE, .block = 1, .size = 3, .count = 2, .align = 4) \
    each(mi_recalloc_aligned_at, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_rezalloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_rezalloc_aligned, NAME_RESIZE, .block = 1, .size = 2, .align = 3) \
    each(mi_rezalloc_aligned_at, NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_strdup, NAME_STRING) \
    each(mi_strndup, NAME_STRING) \
    each(mi_valloc, NAME_ALLOCATE, .size = 1) \
    each(mi_zalloc, NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(mi_zalloc_aligned, NAME_ALLOCATE, .size = 1, .align = 2, .zero = 1) \
    each(mi_zalloc_aligned_at, NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(mi_zalloc_small, NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(rallocx, NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(sdallocx, NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(tc_calloc, NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(tc_cfree, NAME_FREE, .block = 1) \
    each(tc_delete, NAME_FREE, .block = 1) \
    each(tc_delete_aligned, NAME_FREE, .block = 1) \
    each(tc_delete_aligned_nothrow, NAME_FREE, .block = 1) \
    each(tc_delete_nothrow, NAME_FREE, .block = 1) \
    each(tc_delete_sized, NAME_FREE, .block = 1, .size = 2) \
    each(tc_delete_sized_aligned, NAME_FREE, .block = 1, .size = 2, .align = 3) \
    each(tc_deletearray, NAME_FREE, .block = 1) \
    each(tc_deletearray_aligned, NAME_FREE, .block = 1) \
    each(tc_deletearray_aligned_nothrow, NAME_FREE, .block = 1) \
    each(tc_deletearray_nothrow, NAME_FREE, .block = 1) \
    each(tc_deletearray_sized, NAME_FREE, .block = 1, .size = 2) \
    each(tc_deletearray_sized_aligned, NAME_FREE, .block = 1, .size = 2, .align = 3) \
    each(tc_free, NAME_FREE, .block = 1) \
    each(tc_free_sized, NAME_FREE, .block = 1, .size = 2) \
    each(tc_malloc, NAME_ALLOCATE, .size = 1) \
    each(tc_malloc_skip_new_handler, NAME_ALLOCATE, .size = 1) \
    each(tc_memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(tc_new, NAME_ALLOCATE, .size = 1) \
    each(tc_new_aligned, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_new_aligned_nothrow, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_new_nothrow, NAME_ALLOCATE, .size = 1) \
    each(tc_newarray, NAME_ALLOCATE, .size = 1) \
    each(tc_newarray_aligned, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_newarray_aligned_nothrow, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_newarray_nothrow, NAME_ALLOCATE, .size = 1) \
    each(tc_posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(tc_pvalloc, NAME_ALLOCATE, .size = 1) \
    each(tc_realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(tc_valloc, NAME_ALLOCATE, .size = 1) \
    each(xallocx, NAME_EXTEND, .block = 1, .size = 2)
// clang-format on

// The index of each function, and their number.
#define NAME_INDEX(symbol, ...) NAME_INDEX_##symbol,
enum { ALLOCATOR_NAMES(NAME_INDEX) NAME_COUNT };

#endif

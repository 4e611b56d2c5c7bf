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
    each(_rjem_aligned_alloc, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(_rjem_calloc, .kind = NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(_rjem_dallocx, .kind = NAME_FREE, .block = 1) \
    each(_rjem_free, .kind = NAME_FREE, .block = 1) \
    each(_rjem_malloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(_rjem_mallocx, .kind = NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(_rjem_memalign, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(_rjem_posix_memalign, .kind = NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(_rjem_rallocx, .kind = NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(_rjem_realloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(_rjem_sdallocx, .kind = NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(_rjem_valloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(_rjem_xallocx, .kind = NAME_EXTEND, .block = 1, .size = 2) \
    each(dallocx, .kind = NAME_FREE, .block = 1) \
    each(je_aligned_alloc, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(je_calloc, .kind = NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(je_dallocx, .kind = NAME_FREE, .block = 1) \
    each(je_free, .kind = NAME_FREE, .block = 1) \
    each(je_malloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(je_mallocx, .kind = NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(je_memalign, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(je_posix_memalign, .kind = NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(je_rallocx, .kind = NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(je_realloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(je_sdallocx, .kind = NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(je_valloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(je_xallocx, .kind = NAME_EXTEND, .block = 1, .size = 2) \
    each(kl_aligned_alloc, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(kl_aligned_alloc_at, .kind = NAME_ALLOCATE, .size = 3) \
    each(kl_aligned_calloc, .kind = NAME_ALLOCATE, .size = 3, .count = 2, .align = 1, .zero = 1) \
    each(kl_aligned_calloc_at, .kind = NAME_ALLOCATE, .size = 4, .count = 3, .zero = 1) \
    each(kl_aligned_realloc, .kind = NAME_RESIZE, .block = 1, .size = 3, .align = 2) \
    each(kl_aligned_realloc_at, .kind = NAME_RESIZE, .block = 1, .size = 4) \
    each(kl_aligned_recalloc, .kind = NAME_RESIZE, .block = 1, .size = 4, .count = 3, .align = 2) \
    each(kl_aligned_recalloc_at, .kind = NAME_RESIZE, .block = 1, .size = 5, .count = 4) \
    each(kl_aligned_rezalloc, .kind = NAME_RESIZE, .block = 1, .size = 3, .align = 2) \
    each(kl_aligned_rezalloc_at, .kind = NAME_RESIZE, .block = 1, .size = 4) \
    each(kl_calloc, .kind = NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(kl_expand, .kind = NAME_EXPAND, .block = 1, .size = 2) \
    each(kl_free, .kind = NAME_FREE, .block = 1) \
    each(kl_free_aligned_sized, .kind = NAME_FREE, .block = 1, .size = 3, .align = 2) \
    each(kl_free_sized, .kind = NAME_FREE, .block = 1, .size = 2) \
    each(kl_heap_aligned_alloc, .kind = NAME_ALLOCATE, .size = 3, .align = 2) \
    each(kl_heap_aligned_alloc_at, .kind = NAME_ALLOCATE, .size = 4) \
    each(kl_heap_aligned_calloc, .kind = NAME_ALLOCATE, .size = 4, .count = 3, .align = 2, .zero = 1) \
    each(kl_heap_aligned_calloc_at, .kind = NAME_ALLOCATE, .size = 5, .count = 4, .zero = 1) \
    each(kl_heap_aligned_realloc, .kind = NAME_RESIZE, .block = 2, .size = 4, .align = 3) \
    each(kl_heap_aligned_realloc_at, .kind = NAME_RESIZE, .block = 2, .size = 5) \
    each(kl_heap_aligned_recalloc, .kind = NAME_RESIZE, .block = 2, .size = 5, .count = 4, .align = 3) \
    each(kl_heap_aligned_recalloc_at, .kind = NAME_RESIZE, .block = 2, .size = 6, .count = 5) \
    each(kl_heap_aligned_rezalloc, .kind = NAME_RESIZE, .block = 2, .size = 4, .align = 3) \
    each(kl_heap_aligned_rezalloc_at, .kind = NAME_RESIZE, .block = 2, .size = 5) \
    each(kl_heap_calloc, .kind = NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(kl_heap_destroy, .kind = NAME_DESTROY, .visit = "kl_heap_visit", .backing = "kl_heap_backing") \
    each(kl_heap_malloc, .kind = NAME_ALLOCATE, .size = 2) \
    each(kl_heap_mallocn, .kind = NAME_ALLOCATE, .size = 3, .count = 2) \
    each(kl_heap_realloc, .kind = NAME_RESIZE, .block = 2, .size = 3) \
    each(kl_heap_reallocf, .kind = NAME_RESIZE, .block = 2, .size = 3, .frees_on_failure = 1) \
    each(kl_heap_reallocn, .kind = NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(kl_heap_realpath, .kind = NAME_STRING, .block = 3) \
    each(kl_heap_recalloc, .kind = NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(kl_heap_rezalloc, .kind = NAME_RESIZE, .block = 2, .size = 3) \
    each(kl_heap_strdup, .kind = NAME_STRING) \
    each(kl_heap_strndup, .kind = NAME_STRING) \
    each(kl_heap_zalloc, .kind = NAME_ALLOCATE, .size = 2, .zero = 1) \
    each(kl_malloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(kl_mallocn, .kind = NAME_ALLOCATE, .size = 2, .count = 1) \
    each(kl_memalign, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(kl_partition_aligned_alloc, .kind = NAME_ALLOCATE, .size = 3, .align = 2) \
    each(kl_partition_calloc, .kind = NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(kl_partition_malloc, .kind = NAME_ALLOCATE, .size = 2) \
    each(kl_posix_memalign, .kind = NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(kl_pvalloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(kl_realloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(kl_reallocarray, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(kl_reallocf, .kind = NAME_RESIZE, .block = 1, .size = 2, .frees_on_failure = 1) \
    each(kl_reallocn, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(kl_realpath, .kind = NAME_STRING, .block = 2) \
    each(kl_recalloc, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(kl_rezalloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(kl_strdup, .kind = NAME_STRING) \
    each(kl_strndup, .kind = NAME_STRING) \
    each(kl_ucalloc, .kind = NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(kl_ufree, .kind = NAME_FREE, .block = 1) \
    each(kl_umalloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(kl_urealloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(kl_valloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(kl_zalloc, .kind = NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(mallocx, .kind = NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(mi_aligned_alloc, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(mi_aligned_offset_recalloc, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_aligned_recalloc, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2, .align = 4) \
    each(mi_calloc, .kind = NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(mi_calloc_aligned, .kind = NAME_ALLOCATE, .size = 2, .count = 1, .align = 3, .zero = 1) \
    each(mi_calloc_aligned_at, .kind = NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(mi_cfree, .kind = NAME_FREE, .block = 1) \
    each(mi_expand, .kind = NAME_EXPAND, .block = 1, .size = 2) \
    each(mi_free, .kind = NAME_FREE, .block = 1) \
    each(mi_free_aligned, .kind = NAME_FREE, .block = 1) \
    each(mi_free_size, .kind = NAME_FREE, .block = 1) \
    each(mi_free_size_aligned, .kind = NAME_FREE, .block = 1) \
    each(mi_heap_alloc_new, .kind = NAME_ALLOCATE, .size = 2) \
    each(mi_heap_alloc_new_n, .kind = NAME_ALLOCATE, .size = 3, .count = 2) \
    each(mi_heap_calloc, .kind = NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(mi_heap_calloc_aligned, .kind = NAME_ALLOCATE, .size = 3, .count = 2, .align = 4, .zero = 1) \
    each(mi_heap_calloc_aligned_at, .kind = NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(mi_heap_destroy, .kind = NAME_DESTROY, .visit = "mi_heap_visit_blocks", .backing = "mi_heap_get_backing") \
    each(mi_heap_malloc, .kind = NAME_ALLOCATE, .size = 2) \
    each(mi_heap_malloc_aligned, .kind = NAME_ALLOCATE, .size = 2, .align = 3) \
    each(mi_heap_malloc_aligned_at, .kind = NAME_ALLOCATE, .size = 2) \
    each(mi_heap_malloc_small, .kind = NAME_ALLOCATE, .size = 2) \
    each(mi_heap_mallocn, .kind = NAME_ALLOCATE, .size = 3, .count = 2) \
    each(mi_heap_realloc, .kind = NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_realloc_aligned, .kind = NAME_RESIZE, .block = 2, .size = 3, .align = 4) \
    each(mi_heap_realloc_aligned_at, .kind = NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_reallocf, .kind = NAME_RESIZE, .block = 2, .size = 3, .frees_on_failure = 1) \
    each(mi_heap_reallocn, .kind = NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(mi_heap_realpath, .kind = NAME_STRING, .block = 3) \
    each(mi_heap_recalloc, .kind = NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(mi_heap_recalloc_aligned, .kind = NAME_RESIZE, .block = 2, .size = 4, .count = 3, .align = 5) \
    each(mi_heap_recalloc_aligned_at, .kind = NAME_RESIZE, .block = 2, .size = 4, .count = 3) \
    each(mi_heap_rezalloc, .kind = NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_rezalloc_aligned, .kind = NAME_RESIZE, .block = 2, .size = 3, .align = 4) \
    each(mi_heap_rezalloc_aligned_at, .kind = NAME_RESIZE, .block = 2, .size = 3) \
    each(mi_heap_strdup, .kind = NAME_STRING) \
    each(mi_heap_strndup, .kind = NAME_STRING) \
    each(mi_heap_zalloc, .kind = NAME_ALLOCATE, .size = 2, .zero = 1) \
    each(mi_heap_zalloc_aligned, .kind = NAME_ALLOCATE, .size = 2, .align = 3, .zero = 1) \
    each(mi_heap_zalloc_aligned_at, .kind = NAME_ALLOCATE, .size = 2, .zero = 1) \
    each(mi_malloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_malloc_aligned, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(mi_malloc_aligned_at, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_malloc_small, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_mallocn, .kind = NAME_ALLOCATE, .size = 2, .count = 1) \
    each(mi_memalign, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(mi_new, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_new_aligned, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(mi_new_aligned_nothrow, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(mi_new_n, .kind = NAME_ALLOCATE, .size = 2, .count = 1) \
    each(mi_new_nothrow, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_new_realloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_new_reallocn, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_posix_memalign, .kind = NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(mi_pvalloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_realloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_realloc_aligned, .kind = NAME_RESIZE, .block = 1, .size = 2, .align = 3) \
    each(mi_realloc_aligned_at, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_reallocarray, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_reallocf, .kind = NAME_RESIZE, .block = 1, .size = 2, .frees_on_failure = 1) \
    each(mi_reallocn, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_realpath, .kind = NAME_STRING, .block = 2) \
    each(mi_recalloc, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_recalloc_aligned, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2, .align = 4) \
    each(mi_recalloc_aligned_at, .kind = NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(mi_rezalloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_rezalloc_aligned, .kind = NAME_RESIZE, .block = 1, .size = 2, .align = 3) \
    each(mi_rezalloc_aligned_at, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_strdup, .kind = NAME_STRING) \
    each(mi_strndup, .kind = NAME_STRING) \
    each(mi_valloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(mi_zalloc, .kind = NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(mi_zalloc_aligned, .kind = NAME_ALLOCATE, .size = 1, .align = 2, .zero = 1) \
    each(mi_zalloc_aligned_at, .kind = NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(mi_zalloc_small, .kind = NAME_ALLOCATE, .size = 1, .zero = 1) \
    each(rallocx, .kind = NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(sdallocx, .kind = NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(tc_calloc, .kind = NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(tc_cfree, .kind = NAME_FREE, .block = 1) \
    each(tc_delete, .kind = NAME_FREE, .block = 1) \
    each(tc_delete_aligned, .kind = NAME_FREE, .block = 1) \
    each(tc_delete_aligned_nothrow, .kind = NAME_FREE, .block = 1) \
    each(tc_delete_nothrow, .kind = NAME_FREE, .block = 1) \
    each(tc_delete_sized, .kind = NAME_FREE, .block = 1, .size = 2) \
    each(tc_delete_sized_aligned, .kind = NAME_FREE, .block = 1, .size = 2, .align = 3) \
    each(tc_deletearray, .kind = NAME_FREE, .block = 1) \
    each(tc_deletearray_aligned, .kind = NAME_FREE, .block = 1) \
    each(tc_deletearray_aligned_nothrow, .kind = NAME_FREE, .block = 1) \
    each(tc_deletearray_nothrow, .kind = NAME_FREE, .block = 1) \
    each(tc_deletearray_sized, .kind = NAME_FREE, .block = 1, .size = 2) \
    each(tc_deletearray_sized_aligned, .kind = NAME_FREE, .block = 1, .size = 2, .align = 3) \
    each(tc_free, .kind = NAME_FREE, .block = 1) \
    each(tc_free_sized, .kind = NAME_FREE, .block = 1, .size = 2) \
    each(tc_malloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_malloc_skip_new_handler, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_memalign, .kind = NAME_ALLOCATE, .size = 2, .align = 1) \
    each(tc_new, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_new_aligned, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_new_aligned_nothrow, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_new_nothrow, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_newarray, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_newarray_aligned, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_newarray_aligned_nothrow, .kind = NAME_ALLOCATE, .size = 1, .align = 2) \
    each(tc_newarray_nothrow, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_posix_memalign, .kind = NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(tc_pvalloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(tc_realloc, .kind = NAME_RESIZE, .block = 1, .size = 2) \
    each(tc_valloc, .kind = NAME_ALLOCATE, .size = 1) \
    each(xallocx, .kind = NAME_EXTEND, .block = 1, .size = 2)
// clang-format on

// The index of each function, and their number.
#define NAME_INDEX(symbol, ...) NAME_INDEX_##symbol,
enum { ALLOCATOR_NAMES(NAME_INDEX) NAME_COUNT };

#endif

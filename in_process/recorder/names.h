// The functions of interpose_names.c, and where the program has them.
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
    uint16_t visit;   // for NAME_DESTROY: index of the function that visits the heap's blocks, and
    uint16_t backing; // of the one that returns the heap that cannot be destroyed
};

// clang-format off
// The functions of jemalloc, if it was built with a prefix.
#define JEMALLOC_NAMES(each, prefix) \
    each(prefix##aligned_alloc, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(prefix##calloc, NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(prefix##dallocx, NAME_FREE, .block = 1) \
    each(prefix##free, NAME_FREE, .block = 1) \
    each(prefix##malloc, NAME_ALLOCATE, .size = 1) \
    each(prefix##mallocx, NAME_ALLOCATE, .size = 1, .flags = 2) \
    each(prefix##memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(prefix##posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(prefix##rallocx, NAME_RESIZE, .block = 1, .size = 2, .flags = 3) \
    each(prefix##realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(prefix##sdallocx, NAME_FREE, .block = 1, .size = 2, .flags = 3) \
    each(prefix##valloc, NAME_ALLOCATE, .size = 1) \
    each(prefix##xallocx, NAME_EXTEND, .block = 1, .size = 2)

// A function of mimalloc and its two variants that align a block: where the block starts, which has
// the alignment at `position`, and at an offset in it. And a function alone.
#define WITH_ALIGNED(each, symbol, position, ...) \
    each(symbol, __VA_ARGS__) \
    each(symbol##_aligned, __VA_ARGS__, .align = position) \
    each(symbol##_aligned_at, __VA_ARGS__)
#define ALONE(each, symbol, position, ...) each(symbol, __VA_ARGS__)

// Functions of mimalloc and libkeel. heap: 1 if the first argument is a heap, else 0.
#define RESIZE_NAMES(each, aligned, prefix, heap) \
    each(prefix##reallocf, NAME_RESIZE, .block = heap + 1, .size = heap + 2, \
         .frees_on_failure = 1) \
    each(prefix##reallocn, NAME_RESIZE, .block = heap + 1, .size = heap + 3, .count = heap + 2) \
    each(prefix##realpath, NAME_STRING, .block = heap + 2) \
    aligned(each, prefix##recalloc, heap + 4, NAME_RESIZE, .block = heap + 1, .size = heap + 3, \
         .count = heap + 2) \
    aligned(each, prefix##rezalloc, heap + 3, NAME_RESIZE, .block = heap + 1, .size = heap + 2) \
    each(prefix##strdup, NAME_STRING) \
    each(prefix##strndup, NAME_STRING)

// Functions of libkeel only.
#define KEEL_ALIGNED_NAMES(each, prefix, heap) \
    each(prefix##aligned_alloc, NAME_ALLOCATE, .size = heap + 2, .align = heap + 1) \
    each(prefix##aligned_alloc_at, NAME_ALLOCATE, .size = heap + 3) \
    each(prefix##aligned_calloc, NAME_ALLOCATE, .size = heap + 3, .count = heap + 2, \
         .align = heap + 1, .zero = 1) \
    each(prefix##aligned_calloc_at, NAME_ALLOCATE, .size = heap + 4, .count = heap + 3, .zero = 1) \
    each(prefix##aligned_realloc, NAME_RESIZE, .block = heap + 1, .size = heap + 3, \
         .align = heap + 2) \
    each(prefix##aligned_realloc_at, NAME_RESIZE, .block = heap + 1, .size = heap + 4) \
    each(prefix##aligned_recalloc, NAME_RESIZE, .block = heap + 1, .size = heap + 4, \
         .count = heap + 3, .align = heap + 2) \
    each(prefix##aligned_recalloc_at, NAME_RESIZE, .block = heap + 1, .size = heap + 5, \
         .count = heap + 4) \
    each(prefix##aligned_rezalloc, NAME_RESIZE, .block = heap + 1, .size = heap + 3, \
         .align = heap + 2) \
    each(prefix##aligned_rezalloc_at, NAME_RESIZE, .block = heap + 1, .size = heap + 4)

// In the order of strcmp.
#define ALLOCATOR_NAMES(each) \
    JEMALLOC_NAMES(each, _rjem_) \
    each(dallocx, NAME_FREE, .block = 1) \
    JEMALLOC_NAMES(each, je_) \
    KEEL_ALIGNED_NAMES(each, kl_, 0) \
    each(kl_calloc, NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(kl_expand, NAME_EXPAND, .block = 1, .size = 2) \
    each(kl_free, NAME_FREE, .block = 1) \
    each(kl_free_aligned_sized, NAME_FREE, .block = 1, .size = 3, .align = 2) \
    each(kl_free_sized, NAME_FREE, .block = 1, .size = 2) \
    KEEL_ALIGNED_NAMES(each, kl_heap_, 1) \
    each(kl_heap_calloc, NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(kl_heap_destroy, NAME_DESTROY, .visit = NAME_INDEX_kl_heap_visit, \
         .backing = NAME_INDEX_kl_heap_backing) \
    each(kl_heap_malloc, NAME_ALLOCATE, .size = 2) \
    each(kl_heap_mallocn, NAME_ALLOCATE, .size = 3, .count = 2) \
    each(kl_heap_realloc, NAME_RESIZE, .block = 2, .size = 3) \
    RESIZE_NAMES(each, ALONE, kl_heap_, 1) \
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
    RESIZE_NAMES(each, ALONE, kl_, 0) \
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
    WITH_ALIGNED(each, mi_calloc, 3, NAME_ALLOCATE, .size = 2, .count = 1, .zero = 1) \
    each(mi_cfree, NAME_FREE, .block = 1) \
    each(mi_expand, NAME_EXPAND, .block = 1, .size = 2) \
    each(mi_free, NAME_FREE, .block = 1) \
    each(mi_free_aligned, NAME_FREE, .block = 1) \
    each(mi_free_size, NAME_FREE, .block = 1) \
    each(mi_free_size_aligned, NAME_FREE, .block = 1) \
    each(mi_heap_alloc_new, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_alloc_new_n, NAME_ALLOCATE, .size = 3, .count = 2) \
    WITH_ALIGNED(each, mi_heap_calloc, 4, NAME_ALLOCATE, .size = 3, .count = 2, .zero = 1) \
    each(mi_heap_destroy, NAME_DESTROY, .visit = NAME_INDEX_mi_heap_visit_blocks, \
         .backing = NAME_INDEX_mi_heap_get_backing) \
    WITH_ALIGNED(each, mi_heap_malloc, 3, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_malloc_small, NAME_ALLOCATE, .size = 2) \
    each(mi_heap_mallocn, NAME_ALLOCATE, .size = 3, .count = 2) \
    WITH_ALIGNED(each, mi_heap_realloc, 4, NAME_RESIZE, .block = 2, .size = 3) \
    RESIZE_NAMES(each, WITH_ALIGNED, mi_heap_, 1) \
    WITH_ALIGNED(each, mi_heap_zalloc, 3, NAME_ALLOCATE, .size = 2, .zero = 1) \
    WITH_ALIGNED(each, mi_malloc, 2, NAME_ALLOCATE, .size = 1) \
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
    WITH_ALIGNED(each, mi_realloc, 3, NAME_RESIZE, .block = 1, .size = 2) \
    each(mi_reallocarray, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    RESIZE_NAMES(each, WITH_ALIGNED, mi_, 0) \
    each(mi_valloc, NAME_ALLOCATE, .size = 1) \
    WITH_ALIGNED(each, mi_zalloc, 2, NAME_ALLOCATE, .size = 1, .zero = 1) \
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

// The functions of malloc's family and of C++, if the program defines malloc itself.
#define NEW_NAMES(each, operator) \
    each(_Zn##operator##m, NAME_ALLOCATE, .size = 1) \
    each(_Zn##operator##mRKSt9nothrow_t, NAME_ALLOCATE, .size = 1) \
    each(_Zn##operator##mSt11align_val_t, NAME_ALLOCATE, .size = 1, .align = 2) \
    each(_Zn##operator##mSt11align_val_tRKSt9nothrow_t, NAME_ALLOCATE, .size = 1, .align = 2)
#define DELETE_NAMES(each, operator) \
    each(_Zd##operator##Pv, NAME_FREE, .block = 1) \
    each(_Zd##operator##PvRKSt9nothrow_t, NAME_FREE, .block = 1) \
    each(_Zd##operator##PvSt11align_val_t, NAME_FREE, .block = 1, .align = 2) \
    each(_Zd##operator##PvSt11align_val_tRKSt9nothrow_t, NAME_FREE, .block = 1, .align = 2) \
    each(_Zd##operator##Pvm, NAME_FREE, .block = 1, .size = 2) \
    each(_Zd##operator##PvmSt11align_val_t, NAME_FREE, .block = 1, .size = 2, .align = 3)
#define PROGRAM_NAMES(each) \
    each(malloc, NAME_ALLOCATE, .size = 1) \
    each(free, NAME_FREE, .block = 1) \
    each(calloc, NAME_ALLOCATE, .size = 1, .count = 2, .zero = 1) \
    each(realloc, NAME_RESIZE, .block = 1, .size = 2) \
    each(reallocarray, NAME_RESIZE, .block = 1, .size = 3, .count = 2) \
    each(memalign, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(posix_memalign, NAME_STORE, .block = 1, .size = 3, .align = 2) \
    each(aligned_alloc, NAME_ALLOCATE, .size = 2, .align = 1) \
    each(valloc, NAME_ALLOCATE, .size = 1) \
    each(pvalloc, NAME_ALLOCATE, .size = 1) \
    each(cfree, NAME_FREE, .block = 1) \
    each(free_sized, NAME_FREE, .block = 1, .size = 2) \
    each(free_aligned_sized, NAME_FREE, .block = 1, .size = 3, .align = 2) \
    NEW_NAMES(each, w) \
    NEW_NAMES(each, a) \
    DELETE_NAMES(each, l) \
    DELETE_NAMES(each, a)

// Functions that the recorder calls.
#define CALLED_NAMES(each) \
    each(kl_heap_backing) \
    each(kl_heap_visit) \
    each(mi_heap_get_backing) \
    each(mi_heap_visit_blocks)
// clang-format on

// The index of each function. NAME_COUNT: number of those that libraries define. It and the next
// number stand for no function.
#define NAME_INDEX(symbol, ...) NAME_INDEX_##symbol,
enum {
    ALLOCATOR_NAMES(NAME_INDEX) NAME_COUNT,
    PROGRAM_NAMES(NAME_INDEX) PROGRAM_NAMES_END,
    CALLED_NAMES(NAME_INDEX) ALL_NAMES_COUNT
};

#endif

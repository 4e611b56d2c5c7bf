// Large blocks, of more than 64 KiB: a run of slices each, or a mapping each (slices/jumbo.h). Any
// thread releases one directly, with one atomic operation on its superblock. The heap that it was
// allocated from is recorded (alloc/allocate.c) but takes no part in that.
#ifndef KEEL_ALLOCATOR_PAGE_LARGE_H
#define KEEL_ALLOCATOR_PAGE_LARGE_H

#include "allocator/slices/page_map.h"
#include <stdbool.h>

struct large {
    void* start; // NULL: no memory
    bool zero;   // all of it is known to be zero
};

// No process has this much address space: x86-64 gives it 128 TiB.
#define LARGE_BYTES_MAX (((size_t)1 << 47) - WINDOW_BYTES)

// False: no system can satisfy the request.
KEEL_INLINE bool large_is_possible(size_t bytes, size_t alignment) {
    return bytes <= LARGE_BYTES_MAX && alignment <= WINDOW_BYTES * 64;
}

// Any size; alignment a power of two.
struct large large_allocate(size_t bytes, size_t alignment);

// From this arena only.
struct arena;
struct large large_allocate_in(struct arena* arena, size_t bytes, size_t alignment);

// For a block that has grown and may grow again: slices with room behind them, or from
// LARGE_MOVABLE_BYTES on a mapping, which grows by moving page tables.
#define LARGE_MOVABLE_BYTES ((size_t)4 << 20)
struct large large_allocate_movable(size_t bytes);

// `page` has PAGE_LARGE or PAGE_JUMBO.
void large_release(struct page* page);

// Zeroes the block. Pages of a mapping that have no memory get none.
void large_zero(struct page* page);

// Resizes without copying: in place, into the slices behind, or by moving page tables. NULL: not
// possible; nothing changed.
void* large_resize(struct page* page, size_t bytes);

#endif

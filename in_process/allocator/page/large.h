// Large blocks: blocks of more than 64 KiB. Each is a run of slices or a mapping (slices/jumbo.h).
// Any thread releases a large block directly, with one atomic operation on its superblock. The heap
// from which it was allocated is recorded (alloc/allocate.c), but the release does not use it.
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

// Any size is allowed. The alignment is a power of two.
struct large large_allocate(size_t bytes, size_t alignment);

// Allocates from this arena only.
struct arena;
struct large large_allocate_in(struct arena* arena, size_t bytes, size_t alignment);

// Allocates for a block that has grown and may grow again. Below LARGE_MOVABLE_BYTES it takes
// slices with free slices after them. From that size on it takes a mapping, which grows by moving
// page tables.
#define LARGE_MOVABLE_BYTES ((size_t)4 << 20)
struct large large_allocate_movable(size_t bytes);

// `page` has PAGE_LARGE or PAGE_JUMBO.
void large_release(struct page* page);

// Zeroes the block. System pages of a mapping that have no memory still have none afterwards.
void large_zero(struct page* page);

// Resizes without copying: in place, into the slices after the block, or by moving page tables. If
// this is not possible, changes nothing and returns NULL.
void* large_resize(struct page* page, size_t bytes);

#endif

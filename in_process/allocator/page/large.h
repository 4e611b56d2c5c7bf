// Blocks of more than 64 KiB: a run of slices each, above 16 MiB a mapping each. No heap owns them:
// any thread gives one back directly, with one atomic operation on its superblock.
#ifndef KEEL_ALLOCATOR_PAGE_LARGE_H
#define KEEL_ALLOCATOR_PAGE_LARGE_H

#include "allocator/arena/page_map.h"
#include <stdbool.h>

struct large {
    void* start; // NULL: no memory
    bool zero;   // all of it is known to be zero
};

// Any size; alignment a power of two.
struct large large_allocate(size_t bytes, size_t alignment);

// `page` has PAGE_LARGE or PAGE_JUMBO.
void large_release(struct page* page);

// Resizes where that needs no copy by us: in place, into the slices behind, or by moving page
// tables. NULL: not possible so; nothing changed.
void* large_resize(struct page* page, size_t bytes);

#endif

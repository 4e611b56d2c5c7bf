// Blocks of more than 64 MiB, and such of 16 MiB that have grown: a mapping each, found again through
// the metadata of the slice in which it begins.
//
// A mapping need not begin at a slice's start: being larger than a slice, no two jumbos begin in
// the same one.
#ifndef KEEL_ALLOCATOR_ARENA_JUMBO_H
#define KEEL_ALLOCATOR_ARENA_JUMBO_H

#include "allocator/arena/page_map.h"
#include <stddef.h>

// All zero. `alignment` is a power of two. NULL: no memory. bytes <= KEEL_SIZE_MAX.
void* jumbo_allocate(size_t bytes, size_t alignment);
void jumbo_release(struct page* page);

// Grows or shrinks by moving page tables, not content. NULL: nothing changed. The result may be
// elsewhere.
void* jumbo_resize(struct page* page, size_t bytes);

size_t jumbo_live_bytes(void);

#endif

// Jumbo blocks: each is a mapping of its own. Blocks of 4 MiB or more are jumbos, except those up
// to 64 MiB that find enough warm slices. A block of 512 KiB or more becomes a jumbo too if it
// takes a cached mapping (not in the secure flavour), and so does an aligned block that does not
// fit into a superblock (large/large.c). The metadata of the slice in which the mapping begins
// describes it.
//
// A mapping need not begin at a slice's start: since it is larger than a slice, no two jumbos begin
// in the same one.
#ifndef KEEL_ALLOCATOR_LARGE_JUMBO_H
#define KEEL_ALLOCATOR_LARGE_JUMBO_H

#include "allocator/space/page_map.h"
#include "allocator/warm/mapping_cache.h"
#include <stdbool.h>
#include <stddef.h>

// `alignment` is a power of two. NULL: no memory. bytes <= KEEL_SIZE_MAX. `filled`: the program is
// expected to fill it, so it gets huge pages. *zero: all of it is known to be zero.
void* jumbo_allocate(size_t bytes, size_t alignment, bool filled, bool* zero);
// Its memory stays for the next one (mapping_cache.h). The caller returns what is too much
// (reserve_step_large).
void jumbo_release(struct page* page);

// Grows or shrinks by moving page tables, not content. NULL: nothing changed. The result may be
// elsewhere.
void* jumbo_resize(struct page* page, size_t bytes);

// Moves a block of slices of this heap into a larger mapping, by moving page tables. The slices
// still belong to the caller; they are all zero and have no memory. NULL: nothing changed (always
// before Linux 5.7).
void* jumbo_adopt(uintptr_t heap, char* old_start, size_t old_bytes, size_t bytes);

#endif

// Blocks of zero bytes, in the secure and the debug flavour: addresses that cannot be accessed, 16
// bytes apart, in a region of 1 MiB that the first such block maps. So each access to one of them,
// before or after its free, ends the process (SIGSEGV).
//
//   index of a block = n * PARTITIONS + its partition      live[index / 64]: a bit for each
//
// Indices are taken in turn, so an address is reused after all others of its partition. If the next
// ones are live, or there is no address space, the caller allocates a block of one byte.
#ifndef KEEL_ALLOCATOR_PAGE_EMPTY_BLOCK_H
#define KEEL_ALLOCATOR_PAGE_EMPTY_BLOCK_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stddef.h>

#define EMPTY_BLOCKS (KEEL_SECURE || KEEL_DEBUG)
#define EMPTY_BLOCK_DISTANCE 16u

// In the partition that the thread has entered. NULL: none. Any thread, without a lock, at most 16
// steps; the first call maps the region.
void* empty_block_allocate(void);

// False: the address is not in the region. Else frees the block; ends the process if it is not
// live.
bool empty_block_free(const void* address);

bool empty_block_is_live(const void* address);
unsigned empty_block_partition(const void* address);

#endif

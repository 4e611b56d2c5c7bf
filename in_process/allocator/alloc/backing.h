// The calling thread's own heap, looked at as first-class heaps are. No list of its pages is kept, which
// would cost every page; they are found by their owner words.
#ifndef KEEL_ALLOCATOR_ALLOC_BACKING_H
#define KEEL_ALLOCATOR_ALLOC_BACKING_H

#include "allocator/alloc/area.h"

// Takes home what other threads have sent, then visits its pages and large blocks, in the order of their addresses.
// The visitor may allocate, and free what it is told of; it returns. Exact, but for blocks that others have freed and
// not sent yet, which count as in use, and for large blocks that others free meanwhile. Linear in the
// address space that Keel's memory is spread over, and in the blocks of the heap's pages.
bool backing_visit(bool blocks, area_visitor* visit, void* context);

// True if what is around the address was allocated from it.
bool backing_owns(const void* address);

#endif

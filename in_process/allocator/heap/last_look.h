// Secure flavour: the last look at the blocks of a heap, at the end of the process.
#ifndef KEEL_ALLOCATOR_HEAP_LAST_LOOK_H
#define KEEL_ALLOCATOR_HEAP_LAST_LOOK_H

#include "allocator/heap/heap.h"

// Ends the process if the program has written to a free block of the heap's current pages, or over
// the state of any of their blocks. Owner only. Of each class it looks at the bin, at the blocks
// freed last and at those carved last, LAST_LOOK_BLOCKS of both.
#define LAST_LOOK_BLOCKS 128u
void heap_look_last(const struct heap* heap);

#endif

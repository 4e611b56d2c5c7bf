// Blocks of other heaps' pages, gathered by page before they are sent home.
//
// A batch is sent when it has 32 blocks, when another page needs its slot, when all batches
// together hold more than 16 KiB, when the heap asks the arena for memory, or at the end of the
// thread. So what waits here is bounded per thread.
#ifndef KEEL_ALLOCATOR_HEAP_BATCH_H
#define KEEL_ALLOCATOR_HEAP_BATCH_H

#include "allocator/heap/heap.h"

// Frees a block of a page that another heap owns. `page` is the first slice's. At most 17
// exchanges.
void batch_add(struct heap* heap, struct page* page, void* address);

// The same without a heap to gather in: one exchange.
void batch_send_single(struct page* page, void* address);

// Sends all. At most 16 exchanges.
void batch_flush(struct heap* heap);

#endif

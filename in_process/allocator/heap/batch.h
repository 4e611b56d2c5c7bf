// Blocks of other heaps' pages on their way home, in two stages.
//
//   batch[page % 64]   blocks of one page, linked: a batch           32 blocks, or another page needs the slot
//     |                                                               v
//   outbox[home % 4]   batches of pages of one heap, chained: mail    16 batches, or another heap needs the slot
//     |                                                               v
//   the home's inbox   one exchange for all of it
//
// All is sent when more than 32 KiB wait, when the heap asks the arena for memory, at
// kl_thread_idle, and at the end of the thread. So what waits here is bounded per thread.
#ifndef KEEL_ALLOCATOR_HEAP_BATCH_H
#define KEEL_ALLOCATOR_HEAP_BATCH_H

#include "allocator/heap/heap.h"

// Frees a block of a page that another heap owns. `page` is the first slice's. At most 68
// exchanges, one for each place of both stages. True: something has been sent.
bool batch_add(struct heap* heap, struct page* page, void* address);

// The same without a heap to gather in: one exchange.
void batch_send_single(struct page* page, void* address);

// Sends all. At most 68 exchanges.
void batch_flush(struct heap* heap);

#endif

// Frees of blocks that other heaps own, gathered in two stages before they are sent.
//
//   batches[page % 64]         linked blocks of one page        full at 32 blocks, or when another
//     |                                                         page needs the entry
//     v
//   owner_chains[owner % 4]    linked batches for one owner     full at 16 batches, or when another
//     |                                                         owner needs the entry
//     v
//   the owner's remote queue   one exchange for the whole chain
//
// The thread sends all batches in four cases: more than 32 KiB wait, its heap needs memory from the
// slices, it calls kl_thread_idle, or it ends. Therefore the number of bytes that wait here is
// bounded for each thread.
#ifndef KEEL_ALLOCATOR_HEAP_REMOTE_BATCH_H
#define KEEL_ALLOCATOR_HEAP_REMOTE_BATCH_H

#include "allocator/heap/heap.h"

// Frees a block of a page that another heap owns. `page` is the metadata of the first slice. At
// most 68 exchanges, one for each entry of both stages. True: something has been sent.
bool remote_batch_add(struct heap* heap, struct page* page, void* address);

// Sends one block to its owner at once, for a thread that has no heap. Makes one exchange.
void remote_batch_send_block(struct page* page, void* address);

// Sends everything. At most 68 exchanges.
void remote_batch_flush(struct heap* heap);

#endif

// Frees of blocks that other heaps own, gathered by page before they are sent.
//
//   batches[page % 64]         linked blocks of one page        full at 64 blocks, or when another
//     |                                                         page needs the entry
//     v
//   the page's remote list     one compare-and-swap for the whole batch (remote_queue.h)
//     |
//     v                        only if that list was empty
//   the owner's remote queue   one compare-and-swap
//
// If more than 32 KiB wait, the thread sends one batch after another until less wait. It sends all
// batches in three cases: its heap needs memory from the slices, it calls kl_thread_idle, or it
// ends. Therefore the number of bytes that wait here is bounded for each thread.
#ifndef KEEL_ALLOCATOR_HEAP_REMOTE_BATCH_H
#define KEEL_ALLOCATOR_HEAP_REMOTE_BATCH_H

#include "allocator/heap/heap.h"

// Frees a block of a page that another heap owns. `page` is the metadata of the first slice. Sends
// at most 64 batches, and one of them in the usual case. True: a page has been announced.
bool remote_batch_add(struct heap* heap, struct page* page, void* address);

// Sends one block at once, for a thread that has no heap.
void remote_batch_send_block(struct page* page, void* address);

// Sends everything: at most 64 batches.
void remote_batch_flush(struct heap* heap);

// In a forked child, which has no other thread: announces the pages that senders of the parent were
// about to announce at the fork. The first function does this for a thread that holds `heap`, the
// second one for threads without a heap. Linear in the announced pages and in the blocks of a page.
void remote_batch_repair(struct heap* heap);
void remote_batch_repair_heapless(void);

#endif

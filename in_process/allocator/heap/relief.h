// Relief: the keeper ends pages of a heap whose thread sleeps.
//
// A thread that waits does not drain its remote queue. When other threads have freed all blocks of
// one of its pages, these blocks are all in the queue, and the page would occupy memory until the
// thread allocates again. The keeper takes the batches from the queue, sorts them by page, ends the
// pages of which it has every block, and puts the other blocks back, now in fewer and larger
// batches.
//
//   remote queue: p7 p3 p7 p9 p7 ..  --gather-->  p3: 40 blocks      --> back into the queue
//                                                 p7: 819, and full  --> the page ends
//
// Why may the keeper end the page? The owner has marked it full (PAGE_FULL), so it is in none of
// the owner's lists; and a thread that holds all blocks of a page holds the only references to it.
#ifndef KEEL_ALLOCATOR_HEAP_RELIEF_H
#define KEEL_ALLOCATOR_HEAP_RELIEF_H

#include "allocator/heap/heap.h"

#define RELIEF_BATCHES_MAX 65536u

// Relieves one heap that a thread holds; takes at most RELIEF_BATCHES_MAX batches. One caller at a
// time. True: pages ended, or there may be more batches.
bool heap_relieve(struct heap* heap);

// True: the queue holds batches other than those that the last call has put back. For the same
// caller.
bool heap_can_be_relieved(struct heap* heap);

// relief_pause waits for a running call to end and prevents new ones: for fork, whose child would
// otherwise lose the batches that are being sorted, and for a caller that needs every batch in its
// queue. May sleep.
void relief_pause(void);
void relief_resume(void);

#endif

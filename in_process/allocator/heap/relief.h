// Relief: the keeper ends pages of a heap whose thread sleeps.
//
// A thread that waits does not drain its remote queue. When other threads have freed all blocks of
// one of its pages, these blocks are all in the queue, and the page would occupy memory until the
// thread allocates again. The keeper takes the batches from the queue and sorts them by page. If it
// has all blocks of a page, it ends the page. It puts the other blocks back into the queue, in
// fewer and larger batches.
//
//   remote queue: p7 p3 p7 p9 p7 ..  --gather-->  p3: 40 blocks      --> back into the queue
//                                                 p7: 819, and full  --> the page ends
//
// The keeper may end such a page, because it has the only references to it: the keeper has all
// blocks of the page, and the page is in none of the owner's lists, because the owner has marked it
// full (PAGE_FULL).
#ifndef KEEL_ALLOCATOR_HEAP_RELIEF_H
#define KEEL_ALLOCATOR_HEAP_RELIEF_H

#include "allocator/heap/heap.h"

#define RELIEF_BATCHES_MAX 65536u

// Relieves one heap that a thread holds; takes at most RELIEF_BATCHES_MAX batches. One caller at a
// time. True: pages ended, or there may be more batches.
bool heap_relieve(struct heap* heap);

// True: the queue has batches that the last call of heap_relieve did not put back. Only the caller
// of heap_relieve may call this.
bool heap_can_be_relieved(struct heap* heap);

// relief_pause waits until a running call of heap_relieve ends, and prevents new ones until
// relief_resume. fork needs this, because the child would otherwise lose the batches that are being
// sorted. A caller that needs every batch in its queue also uses it. May sleep.
void relief_pause(void);
void relief_resume(void);

#endif

// Relief: the keeper ends pages of a heap whose thread sleeps.
//
// A thread that waits does not drain its remote queue. When other threads have freed all blocks of
// one of its pages, all these blocks are in the queue. Without relief, the page would occupy memory
// until the thread allocates again. The keeper takes the batches from the queue and sorts them by
// page. If it has all blocks of a page, it ends the page. It puts the other blocks back into the
// queue, in fewer and larger batches.
//
//   remote queue: p7 p3 p7 p9 p7 ..  --gather-->  p3: 40 blocks      --> back into the queue
//                                                 p7: 819, and full  --> the page ends
//
// The keeper may end such a page, because no other thread has a reference to it. The keeper has all
// blocks of the page. The owner has marked the page full (PAGE_FULL), so the page is in none of the
// owner's lists.
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

// Relief: pages of a thread that sleeps, let go by the keeper.
//
// A thread that waits takes nothing home. When others have freed all blocks of one of its pages, all
// of them lie in its inbox, and the page's memory would stay until the thread allocates again. The
// keeper takes the mail out, sorts it by page, lets go of the pages that are wholly there, and puts
// the rest back, now in fewer and larger batches.
//
//   inbox: p7 p3 p7 p9 p7 ..  --gather-->  p3: 40 blocks      --> back into the inbox
//                                          p7: 819, and full  --> the page ends, its slices are free
//
// Why may it touch the page? The owner has marked it full, so it is in none of the owner's lists;
// and who holds all blocks of a page holds the only references to it.
#ifndef KEEL_ALLOCATOR_HEAP_RELIEF_H
#define KEEL_ALLOCATOR_HEAP_RELIEF_H

#include "allocator/heap/heap.h"

#define RELIEF_BATCHES_MAX 65536u

// Does this for one heap that a thread holds; at most RELIEF_BATCHES_MAX batches. One caller at a
// time. True: it was worth it, there may be more.
bool heap_relieve(struct heap* heap);

// True: the heap has mail, and not just what the last call has put back. For the same caller.
bool heap_can_be_relieved(struct heap* heap);

// Waits until it is done, and keeps it from being done again: for fork, whose child would lose the batches in
// the middle of being sorted, and for who must find all mail in its inbox. May sleep.
void relief_pause(void);
void relief_resume(void);

#endif

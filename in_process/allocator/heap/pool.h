// Which heap is whose: threads take heaps and leave them behind whole, in O(1), with all the pages
// they hold.
//
//   none --first malloc or free--> held by a thread --its exit--> parked --next thread--> held ..
//
// A parked heap's pages keep their owner word; what others free meanwhile gathers in its inbox. Who
// takes the heap next goes on as if it had always been his. So there are as many heaps as there
// were threads at one time, not as ever lived.
#ifndef KEEL_ALLOCATOR_HEAP_POOL_H
#define KEEL_ALLOCATOR_HEAP_POOL_H

#include "allocator/heap/heap.h"

// The heap of this thread. Never NULL: `heap_none` before the thread has one and `heap_gone` after
// its end; these two are read-only with all bins empty, so that every malloc falls to the slow path
// and no page is ever theirs.
extern KEEL_TLS struct heap* thread_heap;
extern const struct heap heap_none;
extern const struct heap heap_gone;

KEEL_INLINE bool heap_is_real(const struct heap* heap) {
    return heap != &heap_none && heap != &heap_gone;
}

// The thread's heap, taken from the parked ones or made if it has none. NULL: no memory.
struct heap* heap_acquire(void);

// The end of this thread: its heap is parked. What it frees afterwards goes home block by block.
void heap_leave(void);

// Takes the heap that has been parked longest, NULL if there is none or somebody else is at the
// pool just now. To be given back by heap_park.
struct heap* heap_take_parked(void);
void heap_park(struct heap* heap);

// All heaps ever made: first, then by next_all.
struct heap* heap_first(void);

// Fork: the pool's lock is held across it, so that the child finds the pool whole. Heaps that other
// threads held at that moment are never used again by the child, as they may have been in the
// middle of a change.
void heap_pool_before_fork(void);
void heap_pool_after_fork(void);

#endif

// The pool of heaps: a thread takes a heap and leaves it behind whole, in O(1), with all its pages.
//
//   none --first malloc or free--> held by a thread --its exit--> parked --next thread--> held ..
//
// The pages of a parked heap keep their owner word, and its remote queue collects frees by other
// threads. The thread that takes the heap next continues with it as it is. So there are as many
// heaps as there were threads at one time, not as many as there ever were.
#ifndef KEEL_ALLOCATOR_HEAP_POOL_H
#define KEEL_ALLOCATOR_HEAP_POOL_H

#include "allocator/heap/heap.h"

// The heap of this thread. Never NULL: `heap_none` before the thread has one, and `heap_gone` after
// its end. These two are read-only with all bins empty, so that every malloc takes the slow path,
// and no page has them as its owner.
extern KEEL_TLS struct heap* thread_heap;
extern const struct heap heap_none;
extern const struct heap heap_gone;

KEEL_INLINE bool heap_is_real(const struct heap* heap) {
    return heap != &heap_none && heap != &heap_gone;
}

// The thread's heap, taken from the parked ones or made if it has none. NULL: no memory.
struct heap* heap_acquire(void);

// Ends this thread's use of its heap and parks it. Frees by the thread after that are sent one by
// one.
void heap_leave(void);

// Takes the heap that has been parked longest. NULL: there is none, or another thread has the
// pool's lock. heap_park returns it.
struct heap* heap_take_parked(void);
void heap_park(struct heap* heap);

// All heaps ever made: first, then by next_all.
struct heap* heap_first(void);

// Fork: the pool's lock is held across it, so that the child finds the pool consistent. The child
// never uses the heaps that other threads held at that moment, as they may have been in the middle
// of a change.
void heap_pool_before_fork(void);
void heap_pool_after_fork(void);

#endif

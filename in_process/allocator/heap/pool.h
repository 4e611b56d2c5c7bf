// The pool of heaps. A thread takes a heap with all its pages, and parks it with all its pages when
// the thread ends. Both take O(1).
//
//   none --first malloc or free--> held by a thread --its exit--> parked --next thread--> held ..
//
// The pages of a parked heap keep their owner word, and its remote queue collects frees by other
// threads. The next thread that takes the heap uses it unchanged. Therefore the number of heaps is
// the largest number of threads at one time, and not the number of all threads so far.
#ifndef KEEL_ALLOCATOR_HEAP_POOL_H
#define KEEL_ALLOCATOR_HEAP_POOL_H

#include "allocator/heap/heap.h"

// The heap of this thread. Never NULL: `heap_none` before the thread has one, and `heap_gone` after
// its end. These two are read-only. All their bins are empty, so that every malloc takes the slow
// path. No page has one of them as its owner.
extern KEEL_TLS struct heap* thread_heap;
extern const struct heap heap_none;
extern const struct heap heap_gone;

KEEL_INLINE bool heap_is_real(const struct heap* heap) {
    return heap != &heap_none && heap != &heap_gone;
}

// Returns the thread's heap. If the thread has none, takes a parked heap or makes a new one. NULL:
// no memory, or the thread has left its heap for good (heap_gone).
struct heap* heap_acquire(void);

// Ends this thread's use of its heap and parks the heap. Later remote frees of this thread are sent
// one by one.
void heap_leave(void);

// Takes a heap for one allocation of a thread that has left its own. The thread must also leave
// this heap, because the end of the thread is not always announced again. (A destructor of
// thread-specific data that sets its value again runs up to four times, and Keel's destructor need
// not run after the last of them.) NULL: no memory.
struct heap* heap_borrow(void);

// Takes the heap that has been parked longest. NULL: there is none, or another thread has the
// pool's lock. heap_park puts it back.
struct heap* heap_take_parked(void);
// Takes this heap. False: it is not parked, or another thread has the pool's lock.
bool heap_unpark(struct heap* heap);
void heap_park(struct heap* heap);

// Any thread. The answer may be outdated at once.
KEEL_INLINE bool heap_is_parked(const struct heap* heap) {
    return atomic_get(&heap->parked) != 0;
}

// True: there is work for this parked heap. Its remote queue is not empty, or its current pages and
// bins have not been released yet.
KEEL_INLINE bool heap_can_be_reclaimed(const struct heap* heap) {
    return atomic_get(&heap->reclaim_next) < CLASS_COUNT ||
           !remote_queue_is_empty(&heap->remote_queue);
}

// Returns the first of all heaps ever made. next_all links them.
struct heap* heap_first(void);

// Verifies the parked heaps, all heaps of threads, and the list of those to look at; only when no
// other thread is active.
bool heap_pool_check(void);

// The pool's lock is held during a fork, so that the child finds the pool consistent. The child
// never uses the heaps that other threads held at the fork, because they may be in the middle of a
// change.
void heap_pool_before_fork(void);
void heap_pool_after_fork(void);

// In the child, after heap_pool_after_fork: announces the pages that other threads of the parent
// were about to announce at the fork, and adds all heaps that the child can use to the watch list.
// These are the parked heaps and `own`, the heap of the forking thread (or NULL). Linear in the
// heaps, and for each such page in the announced pages of its heap.
void heap_repair_in_child(struct heap* own);

#endif

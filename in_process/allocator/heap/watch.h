// The watch list: heaps that may need work by a thread other than their owner.
//
// Such work is: draining and emptying a parked heap; and, by the keeper, relieving a heap whose
// thread sleeps, releasing its kept slices, and filling the spare slices of a realtime thread. The
// events that make it necessary add the heap to the list: a remote free into an empty queue, a
// slice that is kept, the end of a thread. So idle heaps without work cost nothing, however many
// there are.
//
//   any thread: heap_watch --> added (a stack) --watch_take, under the lock--> round
//                                ^                                               |
//                                +-- watch_finish, if there is more to do -- one thread looks
//
// `added` is taken whole, and only when `round` is used up: every heap gets its turn.
//
// A heap is in the list at most once, and at most one thread looks at it at a time:
// heap->watched is set by an exchange before it is added, and cleared after a look that left
// nothing to do. watch_finish looks for work once more after it has cleared the field. A thread
// that adds work first makes the work visible and then exchanges the field, so one of the two
// threads sees what the other did.
#ifndef KEEL_ALLOCATOR_HEAP_WATCH_H
#define KEEL_ALLOCATOR_HEAP_WATCH_H

#include "allocator/heap/heap.h"

// Adds the heap unless it is in the list. Any thread, lock-free: one exchange, then a loop that is
// repeated only if another thread has added a heap meanwhile. Does nothing for user heaps.
void heap_watch(struct heap* heap);

// Takes a heap from the list, so that the caller examines it. `begin`: if all heaps of the round
// have been taken, begins the next round. NULL: no heap, or another thread has the lock. O(1).
struct heap* watch_take(bool begin);

// Ends the examination. `again`: there is more to do, so the heap stays in the list. O(1).
void watch_finish(struct heap* heap, bool again);

// Any thread. The answer may be outdated at once.
bool watch_is_empty(void);

// Fork: the lock is held across it, as for the pool (pool.h). The child, which still holds the
// lock, begins with an empty list: a thread that it does not have may have held a heap of the list.
// Verifies the list, of at most `heaps`; only when no other thread is active.
bool watch_check(size_t heaps);

void watch_before_fork(void);
void watch_after_fork(void);
void watch_forget(void);

#endif

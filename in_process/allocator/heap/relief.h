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
//
// A page with free blocks is in a queue of the owner. After a longer sleep, in a deep pass, the
// keeper empties such a page too, if it has every block that is used:
//
//   list: QUEUED -> CLAIMED   the owner does without the page (heap_next_page)
//   used == blocks in the batch: only the keeper and the queue refer to the page
//   local_free = 0, carved = used = 0, the memory goes back to the system
//   list: CLAIMED -> QUEUED   the owner finds a page without memory, to be carved anew
//
// The page stays in the queue, as only the owner may change the links. An owner that frees a block
// at that moment has not yet decremented `used`, and the keeper gives the page up.
#ifndef KEEL_ALLOCATOR_HEAP_RELIEF_H
#define KEEL_ALLOCATOR_HEAP_RELIEF_H

#include "allocator/heap/heap.h"

#define RELIEF_BATCHES_MAX 65536u // in one pass
// Units of work in one step, under the lock: a batch taken, an entry of the table emptied, a block
// of 8 bytes put back. A slice whose memory goes back to the system counts as 15.
#define RELIEF_STEP_MAX 64u

// Relieves one heap that a thread holds, by one step: begins a pass, or continues the pass for this
// heap, or first ends that of another heap. A pass takes at most RELIEF_BATCHES_MAX batches. One
// caller at a time. False: the pass has ended, or another thread prevents the step;
// relief_is_unfinished distinguishes them. heap_can_be_relieved shows whether there is more to do.
// `deep`: a pass that begins is a deep one.
bool heap_relieve(struct heap* heap, bool deep);

// True: a pass for this heap has begun and not ended. Any thread; the answer may be outdated.
bool relief_is_unfinished(const struct heap* heap);

// True: the queue holds batches other than those that the last pass has put back. Any thread, but
// only the caller of heap_relieve gets a reliable answer.
KEEL_INLINE bool heap_can_be_relieved(const struct heap* heap) {
    uintptr_t pending = atomic_get(&heap->remote_queue.pending);
    return atomic_get(&heap->remote_queue.head) != 0 ||
           (pending != 0 && pending != atomic_get(&heap->remote_seen));
}

// relief_pause waits for a running step to end, and prevents new steps until relief_resume. May
// sleep, for one step at most.
void relief_pause(void);
// Likewise, and first ends an unfinished pass, for a caller that needs every batch in its queue: in
// steps, of which each does at most RELIEF_STEP_MAX units under the lock.
void relief_end_and_pause(void);
void relief_resume(void);

// A fork pauses relief and does not end the pass: the parent's keeper continues it. The child calls
// relief_forget, while relief is paused. From then on any thread of the child may call
// relief_continue_left, which does one step of a pass that the fork has left unfinished; its heap
// is watched at the end. False: there is none, or another thread prevents the step.
void relief_forget(void);
bool relief_is_left(void);
bool relief_continue_left(void);

#endif

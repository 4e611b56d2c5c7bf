// Relief: the keeper ends pages of a heap whose thread sleeps.
//
// A thread that waits does not drain its remote queue. When other threads have freed all blocks of
// one of its pages, all these blocks are in the page's remote list. Without relief, the page would
// occupy memory until the thread allocates again. The keeper takes the list of each announced page.
// If it has all blocks of the page, it ends the page. Otherwise it keeps the blocks in the page
// (remote_queue_keep), and the next free by another thread announces the page again:
//
//   announced: p7 p3 p9 ..  -->  p3: 40 blocks        --> kept
//                                p7: 819, and full    --> the page ends
//                                p9: 12, and 807 kept --> the page ends
//
// The keeper may end such a page, because no other thread has a reference to it. The keeper has all
// blocks of the page. The owner has marked the page full (PAGE_FULL), so the page is in none of the
// owner's lists.
//
// A page with free blocks is in a queue of the owner. After a longer sleep, in a deep step, the
// keeper empties such a page too, if it has every block that is used:
//
//   list: QUEUED -> CLAIMED   the owner does without the page (heap_next_page)
//   used == kept blocks: only the keeper and the queue refer to the page
//   local_free = 0, carved = used = 0, the memory goes back to the system
//   list: CLAIMED -> QUEUED   the owner finds a page without memory, to be carved anew
//
// The page stays in the queue, as only the owner may change the links. An owner that frees a block
// at that moment has not yet decremented `used`, and the keeper gives the page up.
//
// Nothing outlives a step: between two steps the owner, or another holder of the heap, finds every
// block in a remote list or kept in its page.
#ifndef KEEL_ALLOCATOR_HEAP_RELIEF_H
#define KEEL_ALLOCATOR_HEAP_RELIEF_H

#include "allocator/heap/heap.h"

// Units of work in one step: an examined page is 1, a page whose memory goes back to the system 32.
#define RELIEF_STEP_MAX 64u

// Relieves one heap that a thread holds, by one step. One caller at a time for each heap. `deep`:
// the step is deep. False: no announced page remains after this step, or another thread prevents
// the step; heap_can_be_relieved reports whether work remains.
bool heap_relieve(struct heap* heap, bool deep);

// From now on deep steps also examine the pages that have kept blocks, each once. For the caller of
// heap_relieve.
void heap_relieve_kept(struct heap* heap);

// True: pages have been announced since the last step, or kept pages are to be examined. Any
// thread, but only the caller of heap_relieve gets a reliable answer.
KEEL_INLINE bool heap_can_be_relieved(const struct heap* heap) {
    return remote_queue_has_announced(&heap->remote_queue) || atomic_get(&heap->relief_left) != 0;
}

// relief_pause waits for a running step to end, and prevents further ones: for fork, whose child
// would otherwise lose the blocks that are being examined, and for a caller that must become the
// consumer of a queue. May sleep, for one step.
void relief_pause(void);
void relief_resume(void);
// In a forked child, while relief is paused: forgets the threads of the parent that waited for
// that.
void relief_forget(void);

#endif

// A thread's heap: for each size class a bin of blocks ready to hand out, the page they come from,
// and the queue of pages that have more.
//
//   bin[c]  -> block -> block -> 0          what malloc pops; all from current[c]
//   current[c]                              that page, or NULL
//   queue[c] -> page <-> page <-> page      pages with free blocks; full pages are in no list
//   empty[0..7]                             64 KiB slices kept for the next page of any class
//   spare[0..31]                            warm slices that the keeper keeps ready for a realtime thread
//   batch[64], outbox[4]                    blocks of others' pages, on their way home
//   inbox                                   blocks of our pages that others sent home
//
// One thread at a time holds a heap (pool.h) and everything but the inbox and the counters' readers
// is its alone. A heap is never unmapped, so that an inbox may be pushed to at any time.
#ifndef KEEL_ALLOCATOR_HEAP_HEAP_H
#define KEEL_ALLOCATOR_HEAP_HEAP_H

#include "allocator/heap/tail.h"
#include "allocator/page/class_count.h"
#include "allocator/page/inbox.h"
#include "allocator/page/page.h"
#include "base/atomic.h"
#include <stdbool.h>

#define HEAP_EMPTY_MAX 8u
#define HEAP_SPARE_MAX 32u
#define HEAP_BATCHES 64u
#define HEAP_OUTBOXES 4u
// A page on warm memory occupies all of it. So many pages of a class must have been filled before
// that is a small part of what the class holds; until then its pages begin cold and occupy what is
// touched of them.
#define HEAP_FILLED_ENOUGH 3u

struct page_queue {
    struct page* first;
    struct page* last;
};

struct batch {
    struct page* page; // NULL: slot not in use
    struct batch_list list;
};

struct outbox {
    struct heap* home; // NULL: slot not in use
    struct mail mail;
    unsigned batches;
    uint32_t bytes;
};

enum heap_count {
    HEAP_REFILL,      // mallocs that found their bin empty
    HEAP_CARVE,       // times blocks were carved
    HEAP_PAGE_BEGUN,  // pages taken into use
    HEAP_PAGE_ENDED,  // pages that became empty and were let go
    HEAP_BATCH_SENT,  // batches sent to other heaps
    HEAP_MAIL_SENT,   // exchanges that this took
    HEAP_BATCH_TAKEN, // batches that came home
    HEAP_BLOCKS_SENT, // blocks in them
    HEAP_COUNTS
};

struct heap {
    struct block* bin[CLASS_COUNT];
    struct page* current[CLASS_COUNT];
    struct page_queue queue[CLASS_COUNT];
    uint8_t filled[CLASS_COUNT];   // pages of this class filled so far, up to HEAP_FILLED_ENOUGH
    uint8_t bin_zero[CLASS_COUNT]; // 1: the blocks of the bin are zero but for their first word
    // Addresses; anyone may take one by exchange, only the owner puts.
    atomic_word empty[HEAP_EMPTY_MAX];
    unsigned empty_count; // 0..HEAP_EMPTY_MAX; entries from here on are 0
    // Slices, taken by exchange; put by the keeper, and by the owner when it becomes realtime.
    atomic_word spare[HEAP_SPARE_MAX];
    atomic_state spare_wanted; // 0..HEAP_SPARE_MAX; not 0: the thread is realtime
    uint32_t waiting_bytes;    // bytes of blocks in `batch` and `outbox`
    struct batch batch[HEAP_BATCHES];
    struct outbox outbox[HEAP_OUTBOXES];
    atomic_bits counts[HEAP_COUNTS]; // owner adds, anyone reads
    // Blocks put into the bin so far, less those put back from it. Owner writes, anyone reads.
    atomic_bits given[CLASS_COUNT];
    // Large blocks allocated from it so far, by size. Who resizes one in place into another size counts that too.
    atomic_bits large_given[LARGE_ROWS];
    atomic_bits relieved_pages; // of those begun, ended by the keeper (relief.c). Anyone reads
    atomic_state thread_id;     // the system's number of the thread that has it; 0: none
    struct tail tail;
    uint32_t draws;           // times that the arena was asked for memory
    uint32_t considered;      // draws when the keeper was last thought of
    uint64_t activity_seen;   // keeper's own
    uint64_t idle_us;         // keeper's own: for so long that has not changed
    uintptr_t mail_seen;      // keeper's own: first of what was sorted in vain (relief.c), or 0
    struct region* region;    // first-class: all of its memory is from there; NULL: from anywhere
    uint64_t held_bytes;      // first-class: of pages, kept slices and large blocks
    uint64_t limit_bytes;     // first-class: held_bytes goes no further; 0: no limit
    bool freshly_parked;      // pool.c: nobody has looked through the current pages since
    struct heap* next_parked; // pool.c
    struct heap* next_all;    // pool.c; constant once set
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct inbox inbox;
};
_Static_assert(KEEL_CACHE_LINE > PAGE_FLAGS, "heaps leave the low bits of an owner word free");

// First-class heaps (alloc/shared.h) have this bit in their address, the heaps of threads do not: so an
// owner word tells of which kind the heap is, without a look at it.
#define HEAP_SHARED ((uintptr_t)KEEL_CACHE_LINE)
#define HEAP_SPACING (2 * (size_t)KEEL_CACHE_LINE) // heaps of one kind are multiples of this apart

KEEL_INLINE struct heap* page_heap(uintptr_t owner) {
    return (struct heap*)(owner & ~(uintptr_t)PAGE_FLAGS);
}

// First-class heaps, whose lock the caller has, keep account of what they hold; those of threads do not.
KEEL_INLINE void heap_hold(struct heap* heap, size_t bytes) {
    if (((uintptr_t)heap & HEAP_SHARED) != 0) heap->held_bytes += bytes;
}
KEEL_INLINE void heap_unhold(struct heap* heap, size_t bytes) {
    if (((uintptr_t)heap & HEAP_SHARED) != 0) heap->held_bytes -= bytes;
}
KEEL_INLINE bool heap_admits(const struct heap* heap, size_t bytes) {
    uint64_t limit = heap->limit_bytes;
    return limit == 0 || (heap->held_bytes <= limit && bytes <= limit - heap->held_bytes);
}

// The next page of this class that has a block to give, made current. NULL: the queue is empty.
// O(1).
struct page* heap_next_page(struct heap* heap, unsigned size_class);

// The current page has nothing left: it is full from now on and in no list.
void heap_retire_current(struct heap* heap, unsigned size_class);

// A page for this class from memory that nobody uses, made current. NULL: no memory. `*from_arena`
// tells whether the arena was asked.
struct page* heap_fresh_page(struct heap* heap, unsigned size_class, bool* from_arena);

// A full page, of which `home` blocks are home by now: it goes back into its queue.
void heap_page_not_full(struct heap* heap, struct page* page, unsigned home);

// The page has no block in use. Lets it go, unless it is current. True: to the arena, whose stock may
// now have a quantum due, which the caller sees to. O(1).
bool heap_page_emptied(struct heap* heap, struct page* page);

// Takes home at most INBOX_DRAIN_MAX batches, fewer if pages become empty by it. Nothing if somebody
// else is at the inbox just now. True: pages went to the arena.
bool heap_drain(struct heap* heap);

// The same by who has become the inbox's consumer.
bool heap_drain_entered(struct heap* heap);

// The thread of this heap wants no housekeeping done in its calls.
KEEL_INLINE bool heap_is_realtime(struct heap* heap) {
    return atomic_get(&heap->spare_wanted) != 0;
}

// Puts warm slices into the spare until there are as many as are wanted; takes all out if none are.
// Any thread. False: no memory.
bool heap_fill_spare(struct heap* heap);

// Puts the blocks of the bin back into its page; at most `limit` blocks. False: the bin has more,
// nothing changed.
bool heap_flush_bin(struct heap* heap, unsigned size_class, unsigned limit);

// Gives the kept empty slices back to the arena. Any thread. At most 8 steps.
void heap_release_empty(struct heap* heap);

// Verifies queues and current pages. Owner only; linear in the pages it finds.
bool heap_check(struct heap* heap);

#endif

// First-class heaps, the half that frees: heaps that belong to no thread.
//
//   struct shared          is a struct heap as any, but held by whoever has its lock
//   +------+---------------------------+--------------------+
//   | link | struct heap (odd address) | lock, pages, state |
//   +------+---------------------------+--------------------+
//
// Its address has HEAP_SHARED, so every free of its blocks falls to free_slow, and from there to
// shared_free. Blocks go home at once and under the lock. Batches and inboxes are for blocks whose
// heap outlives them; this one may be destroyed.
//
// A block may be handed out from a place inside it, at most 64 KiB from its start (aligned at an
// offset); then the heap is `inner`, and what is freed is the block around the address.
#ifndef KEEL_ALLOCATOR_ALLOC_SHARED_H
#define KEEL_ALLOCATOR_ALLOC_SHARED_H

#include "allocator/heap/heap.h"
#include "allocator/page/class_count.h"
#include "os/lock.h"

enum shared_kind {
    SHARED_FREE,     // in the list of those that can be made heaps again
    SHARED_HEAP,     // a heap
    SHARED_DELETED,  // a heap that nobody allocates from: it ends with its last block
    SHARED_REDIRECT, // stands in for a thread's heap while its default is another; owns no page
};

#define SHARED_PAGES_FIRST 32u // entries of the table that a struct has in itself

struct shared {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct heap heap; // at an odd multiple of 64
    struct os_lock lock;                            // all below, and the heap
    bool inner;                                     // blocks may be handed out from a place inside
    uint32_t kind;                                  // enum shared_kind
    size_t large_count;                             // large blocks in use
    // Set of the pages that are or were this heap's; which still are, their owner word tells. Open
    // addressing by hash. It is no block of any heap's: whoever looks at a heap's blocks finds the program's alone.
    struct page** pages;   // first_pages, or a mapping
    size_t pages_count;    // entries in use
    size_t pages_capacity; // a power of two, or 0
    struct page* first_pages[SHARED_PAGES_FIRST];
    struct shared* target; // SHARED_REDIRECT: whose blocks the thread's malloc gives
    struct heap* own;      // SHARED_REDIRECT: the thread's own heap
    struct shared* next_free;
    struct shared* next_all; // constant once set
};

KEEL_INLINE bool page_is_shared(const struct page* page) {
    return (atomic_get(&page->owner) & HEAP_SHARED) != 0;
}

KEEL_INLINE struct shared* shared_of(struct heap* heap) {
    return (struct shared*)heap;
}

// Bytes from the start of the block to the address that was handed out of it.
size_t shared_offset(const struct page* page, const void* address);

enum shared_verdict {
    SHARED_FREED,
    SHARED_PAGE_ENDED, // and a page with it, which went to the arena
    SHARED_LARGE,      // a large block, now nobody's: the caller releases it
    SHARED_MOVED,      // the page was another heap's by the time the lock was had: again
};
enum shared_verdict shared_free(struct page* page, void* address);

// All structs ever made, whatever they are now; then by next_all.
struct shared* shared_first(void);

// A struct of this kind with nothing in it, and the lock free. NULL: no memory.
struct shared* shared_make(enum shared_kind kind);

// What heaps that have ended had given and counted.
extern atomic_bits shared_given_before[CLASS_COUNT];
extern atomic_bits shared_counts_before[HEAP_COUNTS];
extern atomic_bits shared_large_before[LARGE_ROWS]; // and what threads got that have no heap

// A large block was allocated from this heap (NULL: by a thread that has none), or resized in place into this row.
KEEL_INLINE void shared_count_large(struct heap* heap, unsigned row) {
    atomic_bits* given = heap != NULL ? heap->large_given : shared_large_before;
    (void)atomic_add(&given[row - CLASS_COUNT], 1);
}

// The struct goes back. It owns nothing and nobody uses it. The table of pages stays with it.
void shared_recycle(struct shared* shared);

// Pages of small blocks that it has.
KEEL_INLINE uint64_t shared_pages_live(struct shared* shared) {
    return atomic_get(&shared->heap.counts[HEAP_PAGE_BEGUN]) -
           atomic_get(&shared->heap.counts[HEAP_PAGE_ENDED]);
}

// Fork: all locks are held across it, so that the child finds every heap whole.
void shared_before_fork(void);
void shared_after_fork(void);

#endif

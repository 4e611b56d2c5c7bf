// A thread's heap. For each size class it has a bin of blocks that malloc pops, the page of these
// blocks, and a queue of further pages with free blocks.
//
//   bin[c]  -> block -> block -> 0          malloc pops from it; all from current[c] (bin.h)
//   current[c]                              that page, or NULL
//   queue[c] -> page <-> page <-> page      pages with free blocks; full pages are in no list
//   kept[0..7]                              free slices for the next page or large block
//   spare[0..31]                            warm slices that the keeper provides (realtime)
//   batches[64]                             freed blocks of other heaps' pages, not sent yet
//   remote_queue                            pages with blocks that other threads have freed
//
// One thread at a time holds a heap (pool.h): its owner. The fields of struct heap are grouped by
// the threads that may access them. A heap is never unmapped, so any thread may push to its remote
// queue at any time.
#ifndef KEEL_ALLOCATOR_HEAP_HEAP_H
#define KEEL_ALLOCATOR_HEAP_HEAP_H

#include "allocator/heap/remote_queue.h"
#include "allocator/heap/slow_path.h"
#include "allocator/page/class_count.h"
#include "allocator/page/page.h"
#include "base/atomic.h"
#include <stdbool.h>

#define HEAP_KEPT_MAX 8u
#define HEAP_KEPT_SLICES 4u // 256 KiB each
#define HEAP_SPARE_MAX 32u
#define HEAP_CLASS_WORDS ((CLASS_COUNT + 63) / 64)
#define HEAP_BATCHES 64u
// A bin (bin.h). Zero: empty, once heap_prepare_bins has been called.
union bin {
    struct block* first; // plain flavour; bin 0 of the secure flavour: BIN_NO_BLOCK
    uintptr_t slot;      // secure flavour
};

struct page_queue {
    struct page* first;
    struct page* last;
};

#define BATCH_RECENT 8u // a hint leads as many blocks ahead (page/free_queue.h)

// Freed blocks of one page of another heap.
struct remote_batch {
    struct page* page; // NULL: unused entry
    struct block_list blocks;
    uint32_t bytes;                                  // of the blocks
    uint16_t recent[KEEL_SECURE ? BATCH_RECENT : 2]; // entries of the last blocks, for the hints
};

enum heap_count {
    HEAP_REFILLS,         // mallocs that found their bin empty
    HEAP_CARVES,          // times blocks were carved
    HEAP_PAGES_BEGUN,     // pages begun
    HEAP_PAGES_ENDED,     // pages that became empty and were released
    HEAP_BATCHES_SENT,    // batches of blocks sent to pages of other heaps
    HEAP_PAGES_ANNOUNCED, // pages announced when they were sent
    HEAP_BATCHES_TAKEN,   // remote lists accepted from the remote queue
    HEAP_BLOCKS_SENT,     // blocks in the batches sent
    HEAP_COUNTS
};

#define SECURE_CLASSES (KEEL_SECURE ? CLASS_COUNT : 1u)

// In the secure flavour the arrays by class have an entry for each class of each partition.
struct heap {
    // --- The owner alone (for a user heap: the thread that holds its lock) ---
    union bin bin[CLASS_COUNT];
    struct page* current[CLASS_COUNT];
    struct page_queue queue[CLASS_COUNT];
    uint8_t filled[CLASS_COUNT];   // pages of this class filled so far, up to FILLED_ENOUGH
    uint8_t bin_zero[CLASS_COUNT]; // 1: the blocks of the bin are zero except for their first word
    uint32_t earned;               // pages filled so far, less those begun on trust; not below 0
    unsigned kept_next;            // entry of `kept` to fill or replace next
    uint32_t waiting_bytes;        // bytes of blocks in `batches`
    uint32_t batch_next;           // entry that is sent next because too many bytes wait
    // Classes that have a current page, and some that have none any more (alloc/reclaim.c).
    uint64_t classes[HEAP_CLASS_WORDS];
    unsigned class_count;        // bits set in it
    unsigned last_look;          // class that was looked at last
    unsigned emptied_streak;     // pages that became empty since the last page began
    uint32_t draws;              // requests for memory from the slices
    uint32_t considered;         // `draws` at the last call of keeper_consider
    uint64_t refilled;           // sum of the weights of all refills (alloc/alloc.h)
    uint64_t maintenance_at;     // value of `refilled` from which on maintenance is due
    uint32_t maintenance_weight; // from the last maintenance to this one; 0: none yet
    uint64_t guard_random;       // for guarded sampling
    bool no_guards;              // user heap: no block may be guarded
    struct arena* arena;         // user heap: all of its memory is from there; NULL: from anywhere
    uint64_t held_bytes;         // user heap: bytes of pages, kept slices and large blocks
    uint64_t limit_bytes;        // user heap: upper bound of held_bytes; 0: no limit

    uint64_t free_mark; // secure flavour: state_mark of thread_id

    // --- The owner writes, any thread reads ---
    atomic_bits counts[HEAP_COUNTS];
    atomic_bits
        given[CLASS_COUNT]; // blocks put into the bin so far, minus those put back into pages
    atomic_word sending;    // page that the owner sends blocks to; 0: none. Read in a forked child
    atomic_state thread_id; // the system's number of the owner; 0: none
    atomic_state spare_wanted; // 0..HEAP_SPARE_MAX; not 0: the thread is realtime
    struct slow_path_times slow_paths;

    // --- Any thread, by atomic exchange or addition ---
    KEEL_ALIGNED(KEEL_CACHE_LINE)
    // Runs of partition 0, start + slices, as many as the policy admits; the owner puts them.
    atomic_word kept[HEAP_KEPT_MAX];
    atomic_word
        spare[HEAP_SPARE_MAX]; // slices; put by the keeper, and by an owner that becomes realtime
    // Large blocks allocated from this heap so far, by size. A resize in place into another row
    // also counts in that row.
    atomic_bits large_given[LARGE_ROWS];

    // --- The keeper alone, but any thread reads the atomic ones ---
    atomic_bits relieved_pages; // pages that the keeper has ended (relief.c)
    uint64_t refills_seen;      // the owner's refills when it was last active
    uint64_t active_ms;         // the clock at that time
    bool relieved_deeply;       // by the keeper since then
    atomic_state relief_left;   // kept pages to be examined once more (relief.h)

    // --- The pool (pool.c) changes these under its lock; any thread reads parked and next_all ---
    atomic_state parked; // 1: in the list of parked heaps
    struct heap* next_parked;
    struct heap* prev_parked;
    struct heap* next_all; // constant once set

    // --- The thread that ends, then one that looks at the parked heap (alloc/reclaim.c) ---
    atomic_state reclaim_next; // classes before this one have been emptied; CLASS_COUNT: all
    uint64_t parked_ms;        // the clock when the thread ended

    // --- Any thread, lock-free ---
    struct remote_queue remote_queue;
    atomic_state watched;      // not 0: in the watch list, or a thread looks at it (watch.h)
    struct heap* next_watched; // in that list

    // --- The owner alone. What few threads use is at the end, so that other heaps occupy less ---
    KEEL_ALIGNED(KEEL_CACHE_LINE)
    struct remote_batch batches[HEAP_BATCHES];
    uint32_t class_marks[CLASS_COUNT]; // what reclaim_unused_classes last saw of each
    // Guarded sampling (guarded/sample.h), for each class and for large blocks: the next allocation
    // that is chosen, counted from 1; 0: none.
    uint32_t guard_left[CLASS_COUNT + 1];
    struct block* slots[SECURE_CLASSES][BIN_BLOCKS + 1]; // secure flavour: the blocks of the bins
};
_Static_assert(KEEL_CACHE_LINE > PAGE_FLAGS, "heaps leave the low bits of an owner word free");
// What other threads write often begins a cache line, and what the owner alone writes ends before.
_Static_assert(offsetof(struct heap, remote_queue) % KEEL_CACHE_LINE == 0 &&
                   offsetof(struct heap, slow_paths) < offsetof(struct heap, kept) &&
                   offsetof(struct heap, kept) % KEEL_CACHE_LINE == 0,
               "the owner's cache lines are its own");

// The address of a user heap (alloc/user_heap.h) contains this bit, and the address of a thread's
// heap does not. Therefore an owner word distinguishes the two kinds without an access to the heap.
#define HEAP_USER ((uintptr_t)KEEL_CACHE_LINE)
#define HEAP_SPACING (2 * (size_t)KEEL_CACHE_LINE) // heaps of one kind are a multiple of this apart

KEEL_INLINE struct heap* page_heap(uintptr_t owner) {
    return (struct heap*)(owner & ~(uintptr_t)PAGE_FLAGS);
}

// A user heap counts the bytes that it holds, under its lock, which the caller holds. The heaps of
// threads do not count them.
KEEL_INLINE void heap_hold(struct heap* heap, size_t bytes) {
    KEEL_ASSERT(bytes > 0);
    if (((uintptr_t)heap & HEAP_USER) != 0) heap->held_bytes += bytes;
}
KEEL_INLINE void heap_unhold(struct heap* heap, size_t bytes) {
    KEEL_ASSERT(((uintptr_t)heap & HEAP_USER) == 0 || heap->held_bytes >= bytes);
    if (((uintptr_t)heap & HEAP_USER) != 0) heap->held_bytes -= bytes;
}
KEEL_INLINE bool heap_admits(const struct heap* heap, size_t bytes) {
    uint64_t limit = heap->limit_bytes;
    return limit == 0 || (heap->held_bytes <= limit && bytes <= limit - heap->held_bytes);
}

// Makes the next page of this class with a free block the current page. NULL: the queue is empty.
// O(1).
struct page* heap_next_page(struct heap* heap, unsigned size_class);

// The current page has no free block left: marks it full. It is then in no list.
void heap_retire_current(struct heap* heap, unsigned size_class);

// Begins a page of this class on unused memory and makes it current. NULL: no memory. *from_slices:
// true if the memory came from the slices and not from a slice that the heap kept.
struct page* heap_fresh_page(struct heap* heap, unsigned size_class, bool* from_slices);

// Puts a full page that now has a free block into its queue, and clears PAGE_FULL.
void heap_page_not_full(struct heap* heap, struct page* page);

// The page has no block in use: releases it, unless it is current. True: its slices were released,
// so the caller should check whether a quantum of purging is due. O(1).
bool heap_page_emptied(struct heap* heap, struct page* page);

// Accepts the remote lists of at most REMOTE_DRAIN_MAX pages, or of fewer if pages become empty.
// Does nothing if another thread consumes the queue. True: slices were released.
bool heap_drain(struct heap* heap);

// The same, for the consumer of the queue.
bool heap_drain_entered(struct heap* heap);

// True: no maintenance may be done in the calls of this heap's thread.
KEEL_INLINE bool heap_is_realtime(struct heap* heap) {
    return atomic_get(&heap->spare_wanted) != 0;
}

// Adds warm slices to `spare` until it has spare_wanted slices, or removes all slices if
// spare_wanted is 0. Any thread may call it. False: no memory.
bool heap_fill_spare(struct heap* heap);

// Puts the first blocks of the bin, at most `limit`, back into its page. Returns their number.
unsigned heap_flush_bin(struct heap* heap, unsigned size_class, unsigned limit);

// Keeps free slices for the next page or large block of this heap with as many, if the policy
// admits it, in the place of those that were kept first. slices <= HEAP_KEPT_SLICES. True: slices
// were released, these or others.
bool heap_keep_run(struct heap* heap, char* start, unsigned slices);

// Takes such slices. NULL: none with this number.
char* heap_take_run(struct heap* heap, unsigned slices);

// True: the heap keeps slices. Any thread; the answer may be outdated at once.
KEEL_INLINE bool heap_has_kept(const struct heap* heap) {
    for (unsigned i = 0; i < HEAP_KEPT_MAX; i++) {
        if (atomic_get(&heap->kept[i]) != 0) return true;
    }
    return false;
}

// Releases the slices that the heap has kept. Any thread may call it. At most HEAP_KEPT_MAX steps.
void heap_release_kept(struct heap* heap);

// Verifies queues and current pages. Owner only; linear in the pages it finds.
bool heap_check(struct heap* heap);

#endif

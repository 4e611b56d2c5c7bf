// User heaps (kl_heap_t): heaps that belong to no thread. Any thread may allocate from one, and one may be
// destroyed with all its blocks.
//
//   struct user_heap       a struct heap, held by the thread that holds its lock
//   +---------------------------+--------------------+
//   | struct heap (odd address) | lock, pages, state |
//   +---------------------------+--------------------+
//
// Its address has HEAP_USER, so every free of its blocks falls to free_slow, and from there to
// user_heap_free. A freed block returns to its page at once and under the lock. Remote batches and queues are
// for blocks whose heap outlives them; this one may be destroyed.
//
// Allocation uses the code of the threads' heaps: the thread that holds the lock installs the heap as its
// own for the length of the call.
//
// A block may be returned from a place inside it, at most 64 KiB from its start (aligned at an
// offset); then the heap is `inner`, and a free concerns the block around the address.
#ifndef KEEL_ALLOCATOR_ALLOC_USER_HEAP_H
#define KEEL_ALLOCATOR_ALLOC_USER_HEAP_H

#include "allocator/alloc/page_visit.h"
#include "allocator/heap/heap.h"
#include "allocator/heap/pool.h"
#include "allocator/page/class_count.h"
#include "os/lock.h"

enum user_heap_kind {
    USER_HEAP_UNUSED,   // in the list of those that can be made heaps again
    USER_HEAP_LIVE,     // a heap
    USER_HEAP_DELETED,  // a heap that nobody allocates from: it ends with its last block
    USER_HEAP_REDIRECT, // stands in for a thread's heap while its default is another; owns no page
};

#define USER_HEAP_PAGES_FIRST 32u // entries of the table that a struct has in itself

struct user_heap {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct heap heap; // at an odd multiple of 64
    struct os_lock lock;                            // all below, and the heap
    bool inner;                                     // blocks may be handed out from a place inside
    uint32_t kind;                                  // enum user_heap_kind
    size_t large_count;                             // large blocks in use
    // Set of the pages that are or were this heap's; which still are, their owner word tells. Open
    // addressing by hash. It is no block of any heap's: whoever looks at a heap's blocks finds the program's alone.
    struct page** pages;   // first_pages, or a mapping
    size_t pages_count;    // entries in use
    size_t pages_capacity; // a power of two, or 0
    struct page* first_pages[USER_HEAP_PAGES_FIRST];
    struct user_heap* target; // USER_HEAP_REDIRECT: whose blocks the thread's malloc gives
    struct heap* own;         // USER_HEAP_REDIRECT: the thread's own heap
    struct user_heap* next_free;
    struct user_heap* next_all; // constant once set
};

KEEL_INLINE bool page_is_in_user_heap(const struct page* page) {
    return (atomic_get(&page->owner) & HEAP_USER) != 0;
}

KEEL_INLINE struct user_heap* user_heap_of(struct heap* heap) {
    return (struct user_heap*)heap;
}

// Bytes from the start of the block to the address that was handed out of it.
size_t user_block_offset(const struct page* page, const void* address);

enum user_free_result {
    USER_FREE_DONE,
    USER_FREE_PAGE_ENDED, // and a page with it, which went to the arena
    USER_FREE_LARGE,      // a large block, now nobody's: the caller releases it
    USER_FREE_RETRY,      // the page was another heap's by the time the lock was had: again
};
enum user_free_result user_heap_free(struct page* page, void* address);

// All structs ever made, whatever they are now; then by next_all.
struct user_heap* user_heap_first(void);

// A struct of this kind with nothing in it, and the lock free. NULL: no memory.
struct user_heap* user_heap_make(enum user_heap_kind kind);

// What heaps that have ended had given and counted.
extern atomic_bits user_heap_given_before[CLASS_COUNT];
extern atomic_bits user_heap_counts_before[HEAP_COUNTS];
extern atomic_bits user_heap_large_before[LARGE_ROWS]; // and what threads got that have no heap

// A large block was allocated from this heap (NULL: by a thread that has none), or resized in place into this row.
KEEL_INLINE void user_heap_count_large(struct heap* heap, unsigned row) {
    atomic_bits* given = heap != NULL ? heap->large_given : user_heap_large_before;
    (void)atomic_add(&given[row - CLASS_COUNT], 1);
}

// The struct goes back. It owns nothing and nobody uses it. The table of pages stays with it.
void user_heap_recycle(struct user_heap* user);

// Pages of small blocks that it has.
KEEL_INLINE uint64_t user_heap_pages_live(struct user_heap* user) {
    return atomic_get(&user->heap.counts[HEAP_PAGES_BEGUN]) -
           atomic_get(&user->heap.counts[HEAP_PAGES_ENDED]);
}

// Fork: all locks are held across it, so that the child finds every heap whole.
void user_heap_before_fork(void);
void user_heap_after_fork(void);

// --- Allocation and lifetime (user_heap.c) --------------------------------------------------------

// All of its memory is from `region` unless that is NULL; it holds no more than limit_bytes unless that is 0.
// NULL: no memory, or the region has been removed.
struct user_heap* user_heap_new(struct arena* arena, size_t limit_bytes);

// Sets the limit; what it was before.
size_t user_heap_set_limit(struct user_heap* user, size_t bytes);

// The blocks stay; the heap ends with the last of them. Its free memory goes back now.
void user_heap_delete(struct user_heap* user);

// All blocks end with the heap. Linear in its pages.
void user_heap_destroy(struct user_heap* user);

// Gives back what is not in use.
void user_heap_collect(struct user_heap* user);

struct request {
    size_t size;
    size_t alignment; // a power of two; with an offset at most 64 KiB
    size_t offset;    // block + offset is a multiple of the alignment
    bool zero;        // up to the end of the block
};
// NULL: no memory.
void* user_heap_allocate(struct user_heap* user, struct request request);

// The heap of a block that is Keel's; NULL: a thread's, or nobody's.
struct user_heap* block_user_heap(const void* block);

// True if the address is in a page of the heap, in a carved block.
bool user_heap_owns(struct user_heap* user, const void* address);

// As page_visit for all its pages; the heap is locked meanwhile.
bool user_heap_visit(struct user_heap* user, bool blocks, page_visitor* visit, void* context);

// The heap that the calling thread's malloc takes from, NULL for its own. False: no memory.
struct user_heap* user_heap_default(void);
bool user_heap_set_default(struct user_heap* user);

// True if the calling thread's malloc must ask user_heap_default(). Its bins are empty then, so that
// slow paths alone need to look.
KEEL_INLINE bool thread_heap_is_redirect(void) {
    return ((uintptr_t)thread_heap & HEAP_USER) != 0;
}

// The calling thread's own heap, whatever its default is. NULL: it has none.
struct heap* own_heap(void);

// The calling thread's own heap in its place for a while, whatever its default is; `own_leave` gets what
// `own_enter` gave.
struct heap* own_heap_enter(void);
void own_heap_leave(struct heap* before);

#endif

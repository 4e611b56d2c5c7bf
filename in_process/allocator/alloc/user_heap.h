// User heaps (kl_heap_t): heaps that belong to no thread. Any thread may allocate from one, and one
// may be destroyed with all its blocks.
//
//   struct user_heap       a struct heap, held by the thread that holds its lock
//   +---------------------------+--------------------+
//   | struct heap (odd address) | lock, pages, state |
//   +---------------------------+--------------------+
//
// Its address has HEAP_USER, so every free of its blocks takes the slow path, and from there
// user_heap_free. A freed block returns to its page at once, under the lock. Remote batches and
// queues are for blocks whose heap outlives them; a user heap may be destroyed.
//
// Allocation uses the code of the threads' heaps: the thread that holds the lock installs the heap
// as its own for the length of the call.
//
// An allocation may return an address inside a block, at most 64 KiB from its start (alignment at
// an offset). Then the heap is `inner`, and a free concerns the block around the address.
#ifndef KEEL_ALLOCATOR_ALLOC_USER_HEAP_H
#define KEEL_ALLOCATOR_ALLOC_USER_HEAP_H

#include "allocator/alloc/page_visit.h"
#include "allocator/heap/heap.h"
#include "allocator/heap/pool.h"
#include "allocator/page/class_count.h"
#include "os/lock.h"

enum user_heap_kind {
    USER_HEAP_UNUSED,   // in the list of structs that can become heaps again
    USER_HEAP_LIVE,     // a heap
    USER_HEAP_DELETED,  // a heap that no thread allocates from: it ends with its last block
    USER_HEAP_REDIRECT, // installed as a thread's heap while its default is another; owns no page
};

#define USER_HEAP_PAGES_FIRST 32u // entries of the table inside the struct

struct user_heap {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct heap heap; // at an odd multiple of 64
    struct os_lock lock;                            // all fields below, and the heap
    bool inner;         // addresses inside blocks may have been returned
    uint32_t kind;      // enum user_heap_kind
    size_t large_count; // large blocks in use
    // The set of pages that are or were this heap's; their owner words show which still are. Open
    // addressing by hash. The table is not a block of any heap, so that a visit of a heap finds the
    // program's blocks only.
    struct page** pages;   // first_pages, or a mapping
    size_t pages_count;    // entries in use
    size_t pages_capacity; // a power of two, or 0
    struct page* first_pages[USER_HEAP_PAGES_FIRST];
    struct user_heap* target; // USER_HEAP_REDIRECT: the heap that the thread's malloc uses
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

// --- Structs and frees (user_heap_free.c) --------------------------------------------------------

// Bytes from the start of the block to the address inside it.
size_t user_block_offset(const struct page* page, const void* address);

enum user_free_result {
    USER_FREE_DONE,
    USER_FREE_PAGE_ENDED, // a page was released too
    USER_FREE_LARGE,      // a large block, which now has no owner: the caller releases it
    USER_FREE_RETRY,      // the page had another owner by the time the lock was held
};
enum user_free_result user_heap_free(struct page* page, void* address);

// All structs ever made, whatever their kind: first, then by next_all.
struct user_heap* user_heap_first(void);

// An empty struct of this kind, with the lock free. NULL: no memory.
struct user_heap* user_heap_make(enum user_heap_kind kind);

// Counts of the heaps that have ended.
extern atomic_bits user_heap_given_before[CLASS_COUNT];
extern atomic_bits user_heap_counts_before[HEAP_COUNTS];
extern atomic_bits user_heap_large_before[LARGE_ROWS]; // also those of threads without a heap

// Counts a large block that was allocated from this heap (NULL: by a thread without one), or
// resized in place into this row.
KEEL_INLINE void user_heap_count_large(struct heap* heap, unsigned row) {
    atomic_bits* given = heap != NULL ? heap->large_given : user_heap_large_before;
    (void)atomic_add(&given[row - CLASS_COUNT], 1);
}

// Returns the struct. It owns nothing and no thread uses it. It keeps its table of pages.
void user_heap_recycle(struct user_heap* user);

// Its pages of small blocks.
KEEL_INLINE uint64_t user_heap_pages_live(struct user_heap* user) {
    return atomic_get(&user->heap.counts[HEAP_PAGES_BEGUN]) -
           atomic_get(&user->heap.counts[HEAP_PAGES_ENDED]);
}

// Fork: all locks are held across it, so that the child finds every heap in a consistent state.
void user_heap_before_fork(void);
void user_heap_after_fork(void);

// --- Allocation and lifetime (user_heap.c) -------------------------------------------------------

// All of its memory comes from `arena` unless that is NULL; it holds at most limit_bytes unless
// that is 0. NULL: no memory, or the arena has been removed.
struct user_heap* user_heap_new(struct arena* arena, size_t limit_bytes);

// Sets the limit and returns the previous one.
size_t user_heap_set_limit(struct user_heap* user, size_t bytes);

// Returns the free memory now. The blocks stay; the heap ends with the last of them.
void user_heap_delete(struct user_heap* user);

// Frees all blocks with the heap. Linear in its pages.
void user_heap_destroy(struct user_heap* user);

// Returns unused memory.
void user_heap_collect(struct user_heap* user);

struct request {
    size_t size;
    size_t alignment; // a power of two; with an offset at most 64 KiB
    size_t offset;    // block + offset is a multiple of the alignment
    bool zero;        // up to the end of the block
};
// NULL: no memory.
void* user_heap_allocate(struct user_heap* user, struct request request);

// The user heap of a live block; NULL: the block is in a thread's heap.
struct user_heap* block_user_heap(const void* block);

// True if the address is in a carved block of a page of the heap.
bool user_heap_owns(struct user_heap* user, const void* address);

// page_visit for all its pages. The heap is locked meanwhile.
bool user_heap_visit(struct user_heap* user, bool blocks, page_visitor* visit, void* context);

// The user heap that the calling thread's malloc uses, NULL for its own heap. False: no memory.
struct user_heap* user_heap_default(void);
bool user_heap_set_default(struct user_heap* user);

// True if the calling thread's malloc must use user_heap_default(). The bins of the redirect are
// empty, so that only slow paths need to look.
KEEL_INLINE bool thread_heap_is_redirect(void) {
    return ((uintptr_t)thread_heap & HEAP_USER) != 0;
}

// The calling thread's own heap, whatever its default is. NULL: it has none.
struct heap* own_heap(void);

// Install the calling thread's own heap for a while, whatever its default is; own_heap_leave gets
// the result of own_heap_enter.
struct heap* own_heap_enter(void);
void own_heap_leave(struct heap* before);

#endif

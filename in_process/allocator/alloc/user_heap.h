// User heaps (kl_heap_t): heaps that belong to no thread. Any thread may allocate from a user heap.
// The program may destroy a user heap with all its blocks.
//
//   struct user_heap       a struct heap, held by the thread that holds its lock
//   +---------------------------+--------------------+
//   | struct heap (odd address) | lock, pages, state |
//   +---------------------------+--------------------+
//
// The heap's address contains the bit HEAP_USER. Therefore every free of its blocks takes the slow
// path, which calls user_heap_free. A freed block returns to its page at once, under the lock. Such
// blocks never enter remote batches or queues, because a user heap may be destroyed before they are
// sent.
//
// Allocation uses the code of the threads' heaps: the thread that holds the lock installs the heap
// as its own during the call.
//
// An allocation with an alignment at an offset may return an address inside a block, at most 64 KiB
// from the start of the block. Then the heap is `inner`, and a free of such an address frees the
// block that contains it.
#ifndef KEEL_ALLOCATOR_ALLOC_USER_HEAP_H
#define KEEL_ALLOCATOR_ALLOC_USER_HEAP_H

#include "allocator/alloc/page_visit.h"
#include "allocator/heap/heap.h"
#include "allocator/heap/pool.h"
#include "allocator/page/class_count.h"
#include "os/lock.h"

enum user_heap_kind {
    USER_HEAP_UNUSED,   // in the list of structs for new heaps
    USER_HEAP_LIVE,     // a heap
    USER_HEAP_DELETED,  // a heap that no thread allocates from: it ends with its last block
    USER_HEAP_REDIRECT, // a thread's heap while its default is a user heap; owns no page
};

#define USER_HEAP_PAGES_FIRST 32u // entries of the table inside the struct

struct user_heap {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct heap heap; // at an odd multiple of 64
    struct os_lock lock;                            // protects all fields below, and the heap
    bool inner;         // addresses inside blocks may have been returned
    uint32_t kind;      // enum user_heap_kind
    size_t large_count; // large blocks in use
    // The set of pages that belong to this heap, or have belonged to it. The owner words of the
    // pages show which of them belong to it now. A hash table with open addressing. The table is
    // not a block of any heap, so that a visit of a heap finds only the program's blocks.
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

// Returns the number of bytes from the start of the block to the address inside it.
size_t user_block_offset(const struct page* page, const void* address);

enum user_free_result {
    USER_FREE_DONE,
    USER_FREE_PAGE_ENDED, // a page was also released
    USER_FREE_LARGE,      // a large block, which now has no owner: the caller releases it
    USER_FREE_RETRY,      // the page's owner changed before the lock was taken
};
enum user_free_result user_heap_free(struct page* page, void* address);

// Returns the first of all structs ever made, of every kind. next_all links them.
struct user_heap* user_heap_first(void);

// Returns an empty struct of this kind whose lock is free. NULL: no memory.
struct user_heap* user_heap_make(enum user_heap_kind kind);

// Counts of the heaps that have ended.
extern atomic_bits user_heap_given_before[SIZE_COUNT];
extern atomic_bits user_heap_counts_before[HEAP_COUNTS];
extern atomic_bits user_heap_large_before[LARGE_ROWS]; // also those of threads without a heap

// Counts a large block that was allocated from this heap, or resized in place into this row. `heap`
// is NULL if the thread has none.
KEEL_INLINE void user_heap_count_large(struct heap* heap, unsigned row) {
    atomic_bits* given = heap != NULL ? heap->large_given : user_heap_large_before;
    (void)atomic_add(&given[row - SIZE_COUNT], 1);
}

// Makes the struct available for a new heap. It owns nothing and no thread uses it. It keeps its
// table of pages.
void user_heap_recycle(struct user_heap* user);

// Returns the number of the heap's pages of small blocks.
KEEL_INLINE uint64_t user_heap_pages_live(struct user_heap* user) {
    return atomic_get(&user->heap.counts[HEAP_PAGES_BEGUN]) -
           atomic_get(&user->heap.counts[HEAP_PAGES_ENDED]);
}

// Verifies all user heaps; only when no other thread is active.
bool user_heap_check(void);

// All locks are held during a fork, so that the child finds every heap in a consistent state.
void user_heap_before_fork(void);
void user_heap_after_fork(void);
// As heap_repair_in_child (heap/pool.h), for threads whose default was a user heap. To be called
// before it.
void user_heap_repair_in_child(void);

// --- Allocation and lifetime (user_heap.c) -------------------------------------------------------

// Creates a heap. If `arena` is not NULL, all of the heap's memory comes from it. If limit_bytes is
// not 0, the heap holds at most that many bytes. Returns NULL if there is no memory or the arena
// has been removed.
struct user_heap* user_heap_new(struct arena* arena, size_t limit_bytes);

// Sets the limit and returns the previous one.
size_t user_heap_set_limit(struct user_heap* user, size_t bytes);

// Releases the heap's free memory now. The live blocks stay valid, and the heap ends when the last
// of them is freed.
void user_heap_delete(struct user_heap* user);

// Ends the heap and frees all its blocks. Linear in its pages.
void user_heap_destroy(struct user_heap* user);

// Releases the heap's unused memory.
void user_heap_collect(struct user_heap* user);

struct request {
    size_t size;
    size_t alignment; // a power of two; with an offset at most 64 KiB
    size_t offset;    // block + offset is a multiple of the alignment
    bool zero;        // up to the end of the block
};
// NULL: no memory.
void* user_heap_allocate(struct user_heap* user, struct request request);

// Returns the user heap of a live block, or NULL if the block is in a thread's heap.
struct user_heap* block_user_heap(const void* block);

// Returns true if the address is in a carved block of a page of the heap.
bool user_heap_owns(struct user_heap* user, const void* address);

// Calls page_visit for all pages of the heap. The heap is locked during the visit.
bool user_heap_visit(struct user_heap* user, bool blocks, page_visitor* visit, void* context);

// Get and set the user heap that the calling thread's malloc uses; NULL is the thread's own heap.
// False: no memory.
struct user_heap* user_heap_default(void);
bool user_heap_set_default(struct user_heap* user);

// Returns true if the calling thread's malloc must use user_heap_default(). The bins of a redirect
// are empty, so only slow paths have to check this.
KEEL_INLINE bool thread_heap_is_redirect(void) {
    return ((uintptr_t)thread_heap & HEAP_USER) != 0;
}

// Returns the calling thread's own heap, even if its default is another heap. NULL: it has none.
struct heap* own_heap(void);

// own_heap_enter installs the calling thread's own heap, even if its default is another heap.
// own_heap_leave ends this; its argument is the result of own_heap_enter.
struct heap* own_heap_enter(void);
void own_heap_leave(struct heap* before);

#endif

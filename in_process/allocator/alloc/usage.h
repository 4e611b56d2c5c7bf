// Numbers of blocks and bytes by size, computed on request from what pages and heaps record; and
// visits of the calling thread's heap.
//
// malloc and free count nothing. A refill counts the blocks that it puts into the bin
// (heap->given), and each page knows how many of its blocks are used. So for every size
//
//   given == held by the program + ready in bins + in batches and remote queues + freed
//            '------------------- page_use.used -------------------------'
//
// and for bins that the caller may read (its own heap, or a user heap whose lock it holds):
//
//   used == page_use.used - ready,   allocated == given - ready,   freed == allocated - used
//
// While no other thread runs, these are exact except that blocks in batches and remote queues count
// as used. For threads that run at the moment they are approximate, and blocks ready in their bins
// count as used; a figure that would be negative for that reason is reported as 0.
#ifndef KEEL_ALLOCATOR_ALLOC_USAGE_H
#define KEEL_ALLOCATOR_ALLOC_USAGE_H

#include "allocator/alloc/user_heap.h"
#include "allocator/page/class_count.h"

struct usage_row {
    uint64_t pages;          // or large blocks
    uint64_t reserved_bytes; // of them
    uint64_t used;           // blocks
    uint64_t used_bytes;     // the sizes of these blocks
    uint64_t allocated;      // so far, or since the last reset
    uint64_t freed;          // likewise
};

struct usage {
    struct usage_row rows[COUNT_ROWS];
};

struct usage_row usage_total(const struct usage* usage);

// Small blocks put into the heap's bins so far, and pages that it has now. Any heap; approximate.
uint64_t heap_blocks_given(const struct heap* heap);
uint64_t heap_pages_live(const struct heap* heap);

// The process. Linear in the address space that Keel's memory spans: about 1 ms for 4 GiB.
void usage_of_process(struct usage* usage);

// The calling thread's own heap, with the large blocks allocated from it. Linear likewise.
void usage_of_thread(struct usage* usage);

// A user heap, exactly. Linear in its pages.
void usage_of_heap(struct user_heap* user, struct usage* usage);

// Restarts the counts of allocated and freed blocks of the process at 0.
void usage_reset(void);

// --- The pages of the calling thread's heap ------------------------------------------------------

// Drains the remote queue, then visits the pages and large blocks of the calling thread's heap in
// the order of their addresses. They are found by their owner words: no list of them is kept, which
// would cost every page. The visitor may allocate, and free the blocks that it gets; it must
// return. Exact, except for blocks that other threads have freed but not sent, which count as used,
// and large blocks that other threads free meanwhile. Linear in the address space that Keel's
// memory spans, and in the blocks of the heap's pages.
bool own_heap_visit(bool blocks, page_visitor* visit, void* context);

// True if the address is in memory of the calling thread's heap.
bool own_heap_owns(const void* address);

#endif

// Numbers of blocks and bytes by size, computed on request from the counters of pages and heaps.
// Also visits of the calling thread's heap.
//
// malloc and free update no counters. A refill counts the blocks that it puts into the bin
// (heap->given), and each page has the number of its used blocks. Therefore, for every size
//
//   given == held by the program + ready in bins + in batches and remote queues + freed
//            '------------------- page_use.used -------------------------'
//
// and for bins that the caller may read (its own heap, or a user heap whose lock it holds):
//
//   used == page_use.used - ready,   allocated == given - ready,   freed == allocated - used
//
// While no other thread runs, these numbers are exact, except that blocks in batches and remote
// queues count as used. For other threads that are running, the numbers are approximate, and blocks
// that are ready in their bins count as used. A number that would be negative for this reason is
// reported as 0.
#ifndef KEEL_ALLOCATOR_ALLOC_USAGE_H
#define KEEL_ALLOCATOR_ALLOC_USAGE_H

#include "allocator/alloc/user_heap.h"
#include "allocator/page/class_count.h"

struct usage_row {
    uint64_t pages;          // or large blocks
    uint64_t reserved_bytes; // of these pages
    uint64_t used;           // blocks
    uint64_t used_bytes;     // the sizes of these blocks
    uint64_t allocated;      // so far, or since the last reset
    uint64_t freed;          // in the same period
};

struct usage {
    struct usage_row rows[COUNT_ROWS];
};

struct usage_row usage_total(const struct usage* usage);

// The number of small blocks put into the heap's bins so far, and the number of its pages now. For
// any heap; the numbers are approximate.
uint64_t heap_blocks_given(const struct heap* heap);
uint64_t heap_pages_live(const struct heap* heap);

// Computes the numbers of the process. Linear in the address space that Keel's memory spans: about
// 1 ms for 4 GiB.
void usage_of_process(struct usage* usage);

// Computes the numbers of the calling thread's own heap, including the large blocks allocated from
// it. The cost is the same.
void usage_of_thread(struct usage* usage);

// Computes the exact numbers of a user heap. Linear in its pages.
void usage_of_heap(struct user_heap* user, struct usage* usage);

// Restarts the counts of allocated and freed blocks of the process at 0.
void usage_reset(void);

// --- The pages of the calling thread's heap ------------------------------------------------------

// Drains the remote queue, then visits the pages and large blocks of the calling thread's heap in
// the order of their addresses. The function finds them by their owner words. There is no list of
// the pages, because such a list would cost time for every page. The visitor may allocate, and may
// free the blocks that it receives. It must return. The visit is exact, with two exceptions. Blocks
// that other threads have freed but not sent count as used. Large blocks that other threads free
// during the visit may be visited or not. Linear in the address space that Keel's memory spans, and
// in the blocks of the heap's pages.
bool own_heap_visit(bool blocks, page_visitor* visit, void* context);

// Returns true if the address is in memory of the calling thread's heap.
bool own_heap_owns(const void* address);

#endif

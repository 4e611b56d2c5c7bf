// Who has how many blocks: counted when it is asked for, from what pages know of themselves.
//
// malloc and free count nothing. A refill counts the blocks that it puts into the bin (heap->given),
// and each page knows how many of its blocks are in use. So for every size
//
//   given == with the program + ready in bins + on their way home + freed
//            '------------------- page_used --------------------'
//
// and what is told, of bins that may be looked into (the caller's own heap, or a heap whose lock it has):
//
//   used == page_used - ready,   allocated == given - ready,   freed == allocated - used
//
// While nothing else runs, these are exact but for blocks on their way home, which count as used. Of
// other threads that run just now they are momentary, and what is ready in their bins counts as
// used; a figure that would come out below 0 for that reason is told as 0.
#ifndef KEEL_ALLOCATOR_ALLOC_USAGE_H
#define KEEL_ALLOCATOR_ALLOC_USAGE_H

#include "allocator/alloc/user_heap.h"
#include "allocator/page/class_count.h"

struct usage_row {
    uint64_t pages;          // or large blocks
    uint64_t reserved_bytes; // of them
    uint64_t used;           // blocks
    uint64_t used_bytes;     // the sizes of these blocks
    uint64_t allocated;      // so far, or since the reset
    uint64_t freed;          // likewise
};

struct usage {
    struct usage_row rows[COUNT_ROWS];
};

struct usage_row usage_total(const struct usage* usage);

// Small blocks that its bins got so far, and pages that it has now. Of any heap; momentary.
uint64_t heap_blocks_given(const struct heap* heap);
uint64_t heap_pages_live(const struct heap* heap);

// Of the process. Linear in the address space that Keel's memory is spread over: about 1 ms for 4 GiB.
void usage_of_process(struct usage* usage);

// Of the calling thread's own heap, the large blocks that were allocated from it among them. Linear likewise.
void usage_of_thread(struct usage* usage);

// Of a first-class heap, exactly. Linear in its pages.
void usage_of_heap(struct user_heap* user, struct usage* usage);

// What is told of the process as allocated and freed counts from here on.
void usage_reset(void);

// --- The pages of the calling thread's heap ------------------------------------------------------

// Takes home what other threads have sent, then visits its pages and large blocks, in the order of their addresses.
// The visitor may allocate, and free what it is told of; it returns. Exact, but for blocks that others have freed and
// not sent yet, which count as in use, and for large blocks that others free meanwhile. Linear in the
// address space that Keel's memory is spread over, and in the blocks of the heap's pages.
bool own_heap_visit(bool blocks, page_visitor* visit, void* context);

// True if what is around the address was allocated from it.
bool own_heap_owns(const void* address);

#endif

// Visiting a page of a heap that the caller holds: where its blocks are, and which are used.
#ifndef KEEL_ALLOCATOR_ALLOC_PAGE_VISIT_H
#define KEEL_ALLOCATOR_ALLOC_PAGE_VISIT_H

#include "allocator/heap/heap.h"

struct visited_page {
    void* blocks;
    size_t reserved_bytes; // of the page, or of the large block
    size_t carved_bytes;   // of the blocks carved so far
    size_t used;           // blocks
    size_t block_bytes;    // usable bytes of each block
    size_t stride_bytes;   // from a block to the next one
    bool large;            // a large block
};

// A visit calls this once for each page with block NULL. If requested, it then calls it once for
// each used block. The visitor returns false to end the visit.
typedef bool page_visitor(void* context, const struct visited_page* area, void* block);

// Visits one page of the heap, or one large block that was allocated from it. The used blocks are
// determined before the visitor is called. Therefore the visitor may free the blocks that it
// receives. Linear in the page's blocks.
bool page_visit(struct heap* heap, const struct page* page, bool blocks, page_visitor* visit,
                void* context);

#endif

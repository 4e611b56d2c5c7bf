// Looking at the pages of a heap that the caller holds: where its blocks are, and which are in use.
#ifndef KEEL_ALLOCATOR_ALLOC_PAGE_VISIT_H
#define KEEL_ALLOCATOR_ALLOC_PAGE_VISIT_H

#include "allocator/heap/heap.h"

struct visited_page {
    void* blocks;
    size_t reserved_bytes; // of the page, or of the large block
    size_t carved_bytes;   // of it that have been blocks so far
    size_t used_bytes;
    size_t block_bytes;
};

// Once for each page with block NULL, then, where wanted, once for each block in use. False: the
// visitor wanted no more.
typedef bool page_visitor(void* context, const struct visited_page* area, void* block);

// Visits one page of the heap, or one large block that was allocated from it. Which blocks are in use is noted
// before the visitor is called, so that it may free what it is told of. Linear in the page's blocks.
bool page_visit(struct heap* heap, const struct page* page, bool blocks, page_visitor* visit,
                void* context);

#endif

// Looking at the pages of a heap that the caller holds: where its blocks are, and which are in use.
#ifndef KEEL_ALLOCATOR_ALLOC_AREA_H
#define KEEL_ALLOCATOR_ALLOC_AREA_H

#include "allocator/heap/heap.h"

struct area {
    void* blocks;
    size_t reserved_bytes; // of the page, or of the large block
    size_t carved_bytes;   // of it that have been blocks so far
    size_t used_bytes;
    size_t block_bytes;
};

// Once for each page with block NULL, then, where wanted, once for each block in use. False: the
// visitor wanted no more.
typedef bool area_visitor(void* context, const struct area* area, void* block);

// Visits one page of the heap, or one large block that was allocated from it. Which blocks are in use is noted
// before the visitor is called, so that it may free what it is told of. Linear in the page's blocks.
bool area_visit(struct heap* heap, const struct page* page, bool blocks, area_visitor* visit,
                void* context);

#endif

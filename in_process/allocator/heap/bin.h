// The bin of a size class: the blocks that malloc returns next. All of them are from the current
// page of the class.
//
// Plain flavour: a list of blocks.
//
// Secure flavour: an array in the heap, filled at its end, in front of a place with BIN_NO_BLOCK.
// No block that malloc is about to return has a link that the program could have overwritten.
//
//   heap->slots[c]   | - | - | .. | b7 | b2 | b9 | BIN_NO_BLOCK |   heap->bin[c].slot: where b7 is
//
// BIN_NO_BLOCK has the form of a block that is never free. So malloc tests only whether the block
// is free, and not also whether there is one.
//
// The place of the next block is kept as its offset in the heap. In a new heap all of them are 0,
// and at offset 0 is the bin of class 0, which the secure flavour does not use otherwise: there,
// heap_prepare_bins puts BIN_NO_BLOCK.
#ifndef KEEL_ALLOCATOR_HEAP_BIN_H
#define KEEL_ALLOCATOR_HEAP_BIN_H

#include "allocator/heap/heap.h"
#include "base/panic.h"

KEEL_INLINE struct block** bin_slot(const struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(KEEL_SECURE && size_class < CLASS_COUNT);
    return (struct block**)((uintptr_t)heap + heap->bin[size_class].slot);
}
// NULL if the place has no block.
KEEL_INLINE struct block* bin_block(struct block* const* slot) {
    struct block* block = *slot;
    return block != BIN_NO_BLOCK ? block : NULL;
}

// The block that bin_take_first will take. NULL: the bin is empty. In the secure flavour not for
// class 0.
KEEL_INLINE struct block* bin_first(const struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(size_class < CLASS_COUNT);
    return KEEL_SECURE ? bin_block(bin_slot(heap, size_class)) : heap->bin[size_class].first;
}

// Removes the first block, which is `block`, from the bin. Plain flavour: prefetches the block
// after it, which the next malloc of this class reads and which may not be in the caches. Secure
// flavour: verifies that the block is free. (There the refill has prefetched all blocks.)
KEEL_INLINE void bin_take_first(struct heap* heap, unsigned size_class, struct block* block) {
    KEEL_ASSERT(block != NULL);
    if (KEEL_SECURE) {
        heap->bin[size_class].slot += sizeof(struct block*);
        block_take(block, size_class_bytes[size_class]);
    } else {
        heap->bin[size_class].first = block->next;
        KEEL_PREFETCH(block->next);
    }
}

// For the secure flavour: removes and returns the first block. NULL, and nothing is done, if the
// bin is empty or if its first block is not free; the caller then takes the slow path, which finds
// out. The row is that of a small request; `partition` is where its class is.
KEEL_INLINE struct block* bin_try_pop(struct heap* heap, struct request_row row, unsigned partition,
                                      uintptr_t key) {
    size_t size_class = (size_t)row.above_first + 1 + partition * SIZE_COUNT;
    struct block* block = *bin_slot(heap, (unsigned)size_class);
    if (KEEL_UNLIKELY(!block_try_take(block, row, key))) return NULL;
    heap->bin[size_class].slot += sizeof(struct block*);
    return block;
}

// Removes the first `count` blocks; `next` is the one after them.
KEEL_INLINE void bin_drop(struct heap* heap, unsigned size_class, unsigned count,
                          struct block* next) {
    KEEL_ASSERT(count > 0);
    if (KEEL_SECURE)
        heap->bin[size_class].slot += count * sizeof(struct block*);
    else
        heap->bin[size_class].first = next;
}

// For a new heap of zeros, before its first use.
KEEL_INLINE void heap_prepare_bins(struct heap* heap) {
    heap->bin[0].first = KEEL_SECURE ? BIN_NO_BLOCK : NULL; // a write: see windows_prepare
}

// --- For the secure flavour; the bin is empty ---

KEEL_INLINE struct block** bin_end(struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(KEEL_SECURE && size_class < CLASS_COUNT);
    return &heap->slots[size_class][BIN_BLOCKS];
}
// The last `count` places hold blocks now.
KEEL_INLINE void bin_set_count(struct heap* heap, unsigned size_class, unsigned count) {
    KEEL_ASSERT(count <= BIN_BLOCKS);
    *bin_end(heap, size_class) = BIN_NO_BLOCK;
    heap->bin[size_class].slot = (uintptr_t)(bin_end(heap, size_class) - count) - (uintptr_t)heap;
}

// Fills it with freed blocks of the current page; page_can_give is true. Returns the first block.
KEEL_INLINE struct block* bin_take_oldest(struct heap* heap, unsigned size_class,
                                          struct page* page) {
    KEEL_ASSERT(page_can_give(page));
    bin_set_count(heap, size_class, page_take_oldest(page, bin_end(heap, size_class)));
    return *bin_slot(heap, size_class);
}

// --- To visit all blocks ---

// The block at the place `index`; `before` is the one in front of it. NULL: there are no more.
KEEL_INLINE struct block* bin_at(const struct heap* heap, unsigned size_class, unsigned index,
                                 const struct block* before) {
    if (KEEL_SECURE) return size_class == 0 ? NULL : bin_block(bin_slot(heap, size_class) + index);
    return index == 0 ? bin_first(heap, size_class) : before->next;
}

#endif

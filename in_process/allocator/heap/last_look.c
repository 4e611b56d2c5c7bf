// A program that ends soon may never reuse the block that it has written to after the free, nor
// free the one whose end it has overwritten. So the end of the process is a moment to look.
//
// Only at current pages: the keeper may be changing the others. Other threads may be freeing
// blocks, and a handler of a signal that interrupted malloc or free may have called exit. So these
// are left out: a state that is zero (its block is being zeroed), chains, whose links a refill
// removes, and the last blocks carved, unless the memory was zero before. The first block of a bin
// may be live.
#include "allocator/heap/last_look.h"
#include "allocator/heap/bin.h"

static void look_at_bin(const struct heap* heap, unsigned size_class) {
    const uint32_t block_bytes = size_class_bytes[size_class];
    const struct block* block = NULL;
    for (unsigned i = 0; (block = bin_at(heap, size_class, i, block)) != NULL; i++) {
        bool live = *block_state(block, block_bytes) == block_mask(block);
        if (live && i == 0) continue;
        if (block_differs_from_free(block, block_bytes) != 0) block_fault_in_bin(block);
    }
}

static void look_at_queue(const struct page* page) {
    struct queue_position position = page_free_begin(page);
    const struct block* block;
    for (unsigned i = 0; i < LAST_LOOK_BLOCKS; i++) {
        if ((block = queue_next_alone(page, &position)) == NULL) return;
        if (block_differs_from_free(block, page->block_bytes) != 0) block_fault_in_bin(block);
    }
}

static KEEL_UNRACED void look_at_states(const struct page* page) {
    const struct page_use* use = page_use(page);
    uint32_t end = use->carved;
    if ((use->fresh & PAGE_ZERO) == 0) end = end > BIN_BLOCKS ? end - BIN_BLOCKS : 0;
    for (uint32_t i = end > LAST_LOOK_BLOCKS ? end - LAST_LOOK_BLOCKS : 0; i < end; i++) {
        const char* block = page->start + (size_t)i * page->block_bytes;
        uint64_t state = *block_state(block, page->block_bytes);
        if (state == 0 || state_is_free(state, block_mask(block))) continue;
        if (!block_is_live(page, block)) block_fault_at_free(page, block);
    }
}

void heap_look_last(const struct heap* heap) {
    KEEL_ASSERT(KEEL_SECURE);
    for (unsigned c = 1; c < CLASS_COUNT; c++) {
        const struct page* page = heap->current[c];
        if (page == NULL) continue;
        look_at_bin(heap, c);
        look_at_queue(page);
        look_at_states(page);
    }
}

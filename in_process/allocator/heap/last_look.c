// A program that ends soon may never reuse the block that it has written to after the free, nor
// free the one whose state it has overwritten. So the end of the process is a moment to look. What
// is behind the requested bytes of a live block, in front of its state, is not verified.
//
// Only at current pages: the keeper may be changing the others. Other threads may be freeing
// blocks, and a handler of a signal that interrupted malloc or free may have called exit. So these
// are left out: a state that is zero (its block is being zeroed), a live block in a list, links and
// hints, which a refill removes, the first block of a bin, which malloc may be taking, and the last
// blocks carved, unless the memory was zero before.
#include "allocator/heap/last_look.h"
#include "allocator/heap/bin.h"

// A link to a block of the page, or to none; or a hint.
static bool may_have_link(const struct page* page, const struct block* block) {
    const struct block* next = block_next(block);
    if (block->next != NULL && (next == NULL || page_reaches(page, next))) return true;
    uint64_t hint = queue_has_hints(page) ? ((const block_word*)block)[1] : 0;
    return hint != 0 && hint <= UINT16_MAX;
}

// In the queue or in a bin.
static void look_at_free(const struct page* page, const struct block* block) {
    const uint64_t state = *block_state(block, page->block_bytes);
    if (!state_is_free(state, block_mask(block)) || may_have_link(page, block)) return;
    if (block_differs_from_free(block, page->block_bytes) != 0) block_fault_in_bin(block);
}

static void look_at_bin(const struct heap* heap, const struct page* page) {
    const struct block* block = bin_first(heap, page->size_class);
    for (unsigned i = 1; block != NULL; i++) {
        block = bin_at(heap, page->size_class, i, block);
        if (block != NULL) look_at_free(page, block);
    }
}

// Those freed last, which are at the end.
static void look_at_queue(const struct page* page) {
    unsigned count = 0;
    struct queue_position position = page_free_begin(page);
    while (queue_next_alone(page, &position) != NULL) count++;
    position = page_free_begin(page);
    for (unsigned i = 0; i < count; i++) {
        const struct block* block = queue_next_alone(page, &position);
        if (block == NULL) return;
        if (i + LAST_LOOK_BLOCKS >= count && page_begins_block(page, block))
            look_at_free(page, block);
    }
}

static KEEL_UNRACED void look_at_states(const struct page* page) {
    const struct page_use* use = page_use(page);
    uint32_t end = use->carved;
    if ((use->fresh & PAGE_ZERO) == 0) end = end > BIN_BLOCKS ? end - BIN_BLOCKS : 0;
    for (uint32_t i = end > LAST_LOOK_BLOCKS ? end - LAST_LOOK_BLOCKS : 0; i < end; i++) {
        const char* block = page->start + (size_t)i * page->block_bytes;
        uint64_t state = atomic_get((atomic_bits*)block_state(block, page->block_bytes));
        const uintptr_t mask = block_mask(block);
        if (state == 0 || state_is_free(state, mask)) continue;
        if (!state_is_live(state, mask, page->block_bytes)) block_fault_at_free(page, block);
    }
}

void heap_look_last(const struct heap* heap) {
    KEEL_ASSERT(KEEL_SECURE);
    for (unsigned c = 1; c < CLASS_COUNT; c++) {
        const struct page* page = heap->current[c];
        if (page == NULL) continue;
        look_at_bin(heap, page);
        look_at_queue(page);
        look_at_states(page);
    }
}

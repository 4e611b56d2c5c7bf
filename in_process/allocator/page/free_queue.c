#include "allocator/page/free_queue.h"
#include <string.h>

// Moves the entries to the start of the array. False: this would make too few places free.
static bool make_places(struct page_use* use) {
    unsigned first = use->queue_first;
    if (first < QUEUE_MOVE_MIN) return false;
    uint16_t* places = queue_places(use);
    unsigned count = queue_end_place(use) - first;
    memmove(places, places + first, count * sizeof *places);
    use->queue_first = 0;
    use->queue_end = places + count;
    if (use->chain_place != QUEUE_NO_PLACE) use->chain_place = (uint16_t)(use->chain_place - first);
    return true;
}

// The exclusive or puts `head` there, and keeps what the program may have changed.
static void link_after(struct block* tail, const struct block* head) {
    tail->next = (struct block*)((uintptr_t)tail->next ^ link_order((uintptr_t)head));
}

// For a full array.
static void append_to_last(struct page* page, const struct block* head, struct block* tail) {
    struct page_use* use = page_use(page);
    uint16_t* last = use->queue_end - 1;
    if (use->chain_place == QUEUE_PLACES - 2) {
        link_after(use->chain_tail, head);
    } else {
        link_after(queue_block(page->start, *last), head);
        *last |= QUEUE_CHAIN;
        use->chain_place = QUEUE_PLACES - 2;
    }
    use->chain_tail = tail;
}

void queue_push_last(struct page* page) {
    struct page_use* use = page_use(page);
    uint16_t entry = *use->queue_end;
    struct block* block = queue_block(page->start, entry);
    if (make_places(use))
        *use->queue_end++ = entry;
    else
        append_to_last(page, block, block);
}

void queue_push_list(struct page* page, struct block* head, struct block* tail) {
    struct page_use* use = page_use(page);
    unsigned place = queue_end_place(use);
    if (place == QUEUE_PLACES - 1) {
        if (!make_places(use)) {
            append_to_last(page, head, tail);
            return;
        }
        place = queue_end_place(use);
    }
    use->chain_place = (uint16_t)place;
    use->chain_tail = tail;
    *use->queue_end++ = queue_entry(head) | QUEUE_CHAIN;
}

// The block after one of a chain; NULL: the chain ends. Ends the process if the link has been
// written to: then it leads out of the page, whose first block is at `start`, and whose last one
// has the offset `last`.
KEEL_INLINE struct block* chain_next(const char* start, size_t last, const struct block* block) {
    struct block* next = block_next(block);
    if (KEEL_UNLIKELY((uintptr_t)next - (uintptr_t)start > last) && next != NULL)
        block_fault_in_bin(block);
    return next;
}

// The chain at `place` has ended.
static void leave_place(struct page_use* use, unsigned place) {
    if (place == use->chain_place) use->chain_place = QUEUE_NO_PLACE;
    use->queue_first = (uint16_t)(place + 1);
}

KEEL_NOINLINE void queue_take(struct page* page, struct block** blocks, unsigned count,
                              const uint8_t* order) {
    struct page_use* use = page_use(page);
    const char* start = page->start;
    const size_t last = page_last(page);
    const uint32_t block_bytes = page->block_bytes;
    uint16_t* places = queue_places(use);
    const unsigned end = queue_end_place(use);
    struct block* next = NULL; // in the chain at `place`; NULL: the first block of the entry
    unsigned place = use->queue_first;
    for (unsigned i = 0; i < count; i++) {
        KEEL_REQUIRE(place != end, start);
        struct block* block = next != NULL ? next : queue_block(start, places[place]);
        bool chain = next != NULL || (places[place] & QUEUE_CHAIN) != 0;
        next = chain ? chain_next(start, last, block) : NULL;
        if (next == NULL)
            leave_place(use, place++);
        else
            block_set_next(block, NULL);
        KEEL_PREFETCH(block);
        KEEL_PREFETCH(block_state(block, block_bytes));
        blocks[order[i]] = block;
    }
    if (next != NULL) places[place] = queue_entry(next) | QUEUE_CHAIN;
}

static uint64_t four_entries(const uint16_t* entries) {
    uint64_t word;
    memcpy(&word, entries, sizeof word);
    return word;
}

// True: one of BIN_BLOCKS entries has a chain.
static bool has_chain(const uint16_t* entries) {
    _Static_assert(BIN_BLOCKS == 16, "all are examined");
    uint64_t all = four_entries(entries) | four_entries(entries + 4) | four_entries(entries + 8) |
                   four_entries(entries + 12);
    return (all & QUEUE_CHAIN * (UINT64_MAX / UINT16_MAX)) != 0;
}

// Takes BIN_BLOCKS blocks. False, and nothing is taken, if there may be a chain, or if the page is
// in two of the areas whose blocks an entry distinguishes.
KEEL_INLINE bool take_entries(struct page* page, struct block** blocks, const uint8_t* order) {
    struct page_use* use = page_use(page);
    const unsigned first = use->queue_first;
    const uint16_t* entries = queue_places(use) + first;
    if (KEEL_UNLIKELY(queue_end_place(use) - first < BIN_BLOCKS) || has_chain(entries))
        return false;
    const size_t offset = (uintptr_t)page->start % QUEUE_AREA_BYTES;
    if (KEEL_UNLIKELY(offset + page->bytes > QUEUE_AREA_BYTES)) return false;
    const char* area = page->start - offset;
    const uint32_t block_bytes = page->block_bytes;
#pragma GCC unroll 16
    for (unsigned i = 0; i < BIN_BLOCKS; i++) {
        struct block* block = (struct block*)(uintptr_t)(area + 8 * (size_t)entries[i]);
        KEEL_PREFETCH(block);
        KEEL_PREFETCH(block_state(block, block_bytes));
        blocks[order[i]] = block;
    }
    use->queue_first = (uint16_t)(first + BIN_BLOCKS);
    return true;
}

void queue_take_most(struct page* page, struct block** blocks, const uint8_t* order) {
    if (!take_entries(page, blocks, order)) queue_take(page, blocks, BIN_BLOCKS, order);
}

struct block* queue_next(const struct page* page, struct queue_position* position) {
    const struct page_use* use = page_use(page);
    const uint16_t* places = queue_places(use);
    struct block* next = NULL;
    if (position->block != NULL) {
        if ((places[position->place] & QUEUE_CHAIN) != 0) next = block_next(position->block);
        if (next == NULL) position->place++;
    }
    if (next == NULL && position->place != queue_end_place(use))
        next = queue_block(page->start, places[position->place]);
    position->block = next;
    return next;
}

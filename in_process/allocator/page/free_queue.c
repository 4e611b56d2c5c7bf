#include "allocator/page/free_queue.h"
#include <string.h>

// A free row becomes the last one of the queue. False: there is none.
static bool add_row(const struct page* page, struct page_use* use) {
    KEEL_ASSERT(queue_row_start(use->queue_end) != use->queue_end);
    uint16_t* row;
    if (use->queue_has_own)
        row = queue_row_take(use->queue_end);
    else
        row = queue_own_row(page, use);
    if (row == NULL) return false;
    KEEL_ASSERT((uintptr_t)row % QUEUE_ROW_BYTES == 0);
    use->queue_has_own |= row == queue_own_row(page, use);
    *queue_row_start(use->queue_end) = queue_row_number(row);
    use->queue_end = row + ROW_FIRST;
    return true;
}

static void end_row(const struct page* page, struct page_use* use, uint16_t* row) {
    KEEL_ASSERT((uintptr_t)row % QUEUE_ROW_BYTES == 0);
    if (row == queue_own_row(page, use))
        use->queue_has_own = 0;
    else
        queue_row_give(row);
}

// All entries of the first row are taken. Another one follows, since a row is added when its
// predecessor is full.
static void leave_row(const struct page* page, struct page_use* use, uint16_t* row) {
    KEEL_ASSERT(row != queue_row_start(use->queue_end));
    use->queue_first = queue_row_numbered(row, *row) + ROW_FIRST;
    end_row(page, use, row);
}

void queue_end_rows(struct page* page) {
    struct page_use* use = page_use(page);
    uint16_t* row = queue_row_start(use->queue_first);
    const uint16_t* last = queue_row_start(use->queue_end);
    while (row != last) {
        uint16_t* next = queue_row_numbered(row, *row);
        end_row(page, use, row);
        row = next;
    }
    end_row(page, use, row);
}

// If the queue has one row, moves its entries to the start of the row. False: this would make fewer
// than `least` places free.
static bool move_to_start(struct page_use* use, size_t least) {
    KEEL_ASSERT(least > 0);
    uint16_t* row = queue_row_start(use->queue_end);
    size_t distance = (size_t)(use->queue_first - row) - ROW_FIRST;
    if (queue_row_start(use->queue_first) != row || distance < least) return false;
    size_t count = (size_t)(use->queue_end - use->queue_first);
    use->queue_first = row + ROW_FIRST;
    memmove(use->queue_first, use->queue_first + distance, count * sizeof *row);
    use->queue_end = use->queue_first + count;
    if (use->chain_place != 0) use->chain_place = (uint16_t)(use->chain_place - distance);
    return true;
}

// So many that a free moves few entries on average.
#define MOVE_MIN (QUEUE_ROW_PLACES / 4)

// Returns the place of the entry, or NULL, and it is not in the queue.
static uint16_t* push_entry(const struct page* page, struct page_use* use, uint16_t entry) {
    uint16_t* place = use->queue_end;
    *place = entry;
    bool last = queue_row_start(place + 1) != queue_row_start(place);
    if (last && !move_to_start(use, MOVE_MIN)) {
        if (add_row(page, use)) return place;
        if (!move_to_start(use, 1)) return NULL;
    }
    *use->queue_end = entry;
    return use->queue_end++;
}

// `link`: that of the block, unless the program has written to it. The exclusive or replaces it,
// and keeps what the program may have changed.
static void link_after(struct block* tail, uintptr_t link, const struct block* head) {
    link ^= link_order((uintptr_t)head) ^ block_mask(tail);
    tail->next = (struct block*)((uintptr_t)tail->next ^ link);
}

// The last row is full, and no row is free.
static void append_to_last(struct page* page, const struct block* head, struct block* tail) {
    struct page_use* use = page_use(page);
    KEEL_ASSERT(use->queue_first != use->queue_end && head != NULL && tail != NULL);
    uint16_t* last = use->queue_end - 1;
    if (use->chain_place == queue_place_number(last)) {
        link_after(use->chain_tail, block_mask(use->chain_tail), head);
    } else {
        link_after(queue_block(page->start, *last), 0, head);
        *last |= QUEUE_CHAIN;
        use->chain_place = queue_place_number(last);
    }
    use->chain_tail = tail;
}

void queue_push_last(struct page* page) {
    struct page_use* use = page_use(page);
    struct block* block = queue_block(page->start, *use->queue_end);
    if (push_entry(page, use, *use->queue_end) != NULL) return;
    block_set_next(block, NULL);
    append_to_last(page, block, block);
}

void queue_push_list(struct page* page, struct block* head, struct block* tail) {
    KEEL_ASSERT(head != NULL && tail != NULL && head != tail);
    struct page_use* use = page_use(page);
    const uint16_t* place = push_entry(page, use, queue_entry(head) | QUEUE_CHAIN);
    if (place == NULL) {
        append_to_last(page, head, tail);
        return;
    }
    use->chain_place = queue_place_number(place);
    use->chain_tail = tail;
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

// All blocks of the first entry are taken.
static void leave_place(const struct page* page, struct page_use* use) {
    KEEL_ASSERT(use->queue_first != use->queue_end);
    uint16_t* place = use->queue_first++;
    if (queue_place_number(place) == use->chain_place) use->chain_place = 0;
    uint16_t* row = queue_row_start(place);
    if (queue_row_start(use->queue_first) != row) leave_row(page, use, row);
}

KEEL_NOINLINE void queue_take(struct page* page, struct block** blocks, unsigned count,
                              const uint8_t* order) {
    KEEL_ASSERT(count > 0 && count <= BIN_BLOCKS);
    struct page_use* use = page_use(page);
    const char* start = page->start;
    const size_t last = page_last(page);
    const uint32_t block_bytes = page->block_bytes;
    const uint16_t* end = use->queue_end;
    const bool hints = queue_has_hints(page);
    struct block* next = NULL; // in the chain of the first entry; NULL: the entry's first block
    for (unsigned i = 0; i < count; i++) {
        uint16_t* place = use->queue_first;
        KEEL_REQUIRE(place != end, start);
        struct block* block = next != NULL ? next : queue_block(start, *place);
        bool chain = next != NULL || (*place & QUEUE_CHAIN) != 0;
        if (chain) {
            if (hints) KEEL_PREFETCH(queue_block(start, block_take_hint(block)));
            next = chain_next(start, last, block);
        }
        if (next == NULL) leave_place(page, use);
        if (chain) block->next = NULL;
        KEEL_PREFETCH(block);
        KEEL_PREFETCH(block_state(block, block_bytes));
        blocks[order[i]] = block;
    }
    if (next != NULL) *use->queue_first = queue_entry(next) | QUEUE_CHAIN;
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

// Puts the blocks of BIN_BLOCKS entries there in this order. False, and nothing is done: there may
// be a chain, or the page is in two of the areas whose blocks an entry distinguishes.
KEEL_INLINE bool put_blocks(const struct page* page, const uint16_t* entries, struct block** blocks,
                            const uint8_t* order) {
    const size_t offset = (uintptr_t)page->start % QUEUE_REACH_BYTES;
    if (has_chain(entries) || KEEL_UNLIKELY(offset + page->bytes > QUEUE_REACH_BYTES)) return false;
    const char* area = page->start - offset;
    const size_t state_distance = page->block_bytes - BLOCK_STATE_BYTES;
    KEEL_OPAQUE(area); // else the compiler computes it again for each block
#pragma GCC unroll 16
    for (unsigned i = 0; i < BIN_BLOCKS; i++) {
        const char* block = area + 8 * (size_t)entries[order[i]]; // malloc takes blocks[0] first
        KEEL_PREFETCH(block);
        KEEL_PREFETCH(block + state_distance);
        blocks[i] = (struct block*)(uintptr_t)block;
    }
    return true;
}

// The same for the first BIN_BLOCKS entries, which are in two rows or are the last ones of a row,
// and takes them.
static KEEL_NOINLINE bool take_at_row_end(struct page* page, struct block** blocks,
                                          const uint8_t* order) {
    struct page_use* use = page_use(page);
    uint16_t* row = queue_row_start(use->queue_first);
    const uint16_t* last = queue_row_start(use->queue_end);
    if (row == last) return false;
    const uint16_t* next = queue_row_numbered(row, *row) + ROW_FIRST;
    size_t count = (size_t)(row + QUEUE_ROW_PLACES - use->queue_first);
    KEEL_ASSERT(count <= BIN_BLOCKS);
    size_t rest = BIN_BLOCKS - count;
    if (next - ROW_FIRST == last && next + rest > use->queue_end) return false;
    uint16_t buffer[BIN_BLOCKS];
    memcpy(buffer, use->queue_first, count * sizeof *buffer);
    memcpy(buffer + count, next, rest * sizeof *buffer);
    if (!put_blocks(page, buffer, blocks, order)) return false;
    leave_row(page, use, row);
    use->queue_first += rest;
    return true;
}

static void take_most(struct page* page, struct block** blocks, const uint8_t* order) {
    struct page_use* use = page_use(page);
    const uint16_t* entries = use->queue_first;
    const uint16_t* end = use->queue_end;
    const uint16_t* row_end = queue_row_start(entries) + QUEUE_ROW_PLACES;
    if (queue_row_start(end) != queue_row_start(entries)) end = row_end - 1;
    if (KEEL_LIKELY(entries + BIN_BLOCKS <= end)) {
        if (KEEL_LIKELY(put_blocks(page, entries, blocks, order))) {
            use->queue_first += BIN_BLOCKS;
            return;
        }
    } else if (take_at_row_end(page, blocks, order)) {
        return;
    }
    queue_take(page, blocks, BIN_BLOCKS, order);
}

void queue_take_most(struct page* page, struct block** blocks, const uint8_t* order, size_t next) {
    take_most(page, blocks, order);
    const uint16_t* first = page_use(page)->queue_first;
    const uint16_t* row = queue_row_start(first);
    size_t place = ((size_t)(first - row) + next) % QUEUE_ROW_PLACES;
    const struct block* block = queue_block(page->start, row[place]);
    KEEL_PREFETCH(block);
    KEEL_PREFETCH(block_state(block, page->block_bytes));
}

static const uint16_t* place_after(const uint16_t* place) {
    const uint16_t* row = queue_row_start(place);
    if (queue_row_start(++place) == row) return place;
    return queue_row_numbered(row, *row) + ROW_FIRST;
}

struct block* queue_next(const struct page* page, struct queue_position* position) {
    const struct page_use* use = page_use(page);
    struct block* next = NULL;
    if (position->block != NULL) {
        if ((*position->place & QUEUE_CHAIN) != 0) next = block_next(position->block);
        if (next == NULL) position->place = place_after(position->place);
    }
    if (next == NULL && position->place != use->queue_end)
        next = queue_block(page->start, *position->place);
    position->block = next;
    return next;
}

struct block* queue_next_alone(const struct page* page, struct queue_position* position) {
    const uint16_t* end = page_use(page)->queue_end;
    do {
        if (position->block != NULL) position->place = place_after(position->place);
        if (position->place == end) return NULL;
        position->block = queue_block(page->start, *position->place);
    } while ((*position->place & QUEUE_CHAIN) != 0);
    return position->block;
}

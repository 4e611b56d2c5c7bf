// The free blocks of a page in the secure flavour: a queue, first in, first out.
//
// The queue is in the metadata (space/queue_rows.h). So a refill reads the order of the blocks
// without a wait for the blocks themselves, and prefetches all that it takes. A program cannot
// overwrite the order. A block in the queue has no link (page/block_guard.h), and malloc verifies
// it.
//
//   row 7   | 70 | -  | .. | b7 | b2 | b9 + CHAIN |    place 0: the number of the next row
//                            ^ first
//   row 70  | 71 | b4 | b1 | .. .. .. .. .. .. b3 |
//   row 71  | -  | b8 | b6 | -  .. .. .. .. .. -  |
//                            ^ end                     first == end: the queue is empty
//
//   Row 7 is the own row: that of the page's first slice. It is used first. When the last place of
//   a row is filled, the own row follows, or a row from those that 64 slices share. When its
//   entries are taken, a row is free again. So pages with few free blocks use little memory.
//
//   An entry is bits 3 .. 18 of a block's address. Blocks are at multiples of 16, so bit 3 of the
//   address is 0. CHAIN is there instead.
//
// CHAIN: the block is the first of several, linked by their links, and all of them come before the
// next entry. There are two reasons for a chain. Other threads pass the blocks that they free as a
// list, which becomes a chain in O(1). And when no row is free, frees append to the last entry. The
// 64 slices that share rows have 64,897 places, 1,014 for each slice, so this happens only where
// many blocks are smaller than 80 bytes.
#ifndef KEEL_ALLOCATOR_PAGE_FREE_QUEUE_H
#define KEEL_ALLOCATOR_PAGE_FREE_QUEUE_H

#include "allocator/page/block_guard.h"
#include "allocator/space/queue_rows.h"

#define QUEUE_CHAIN 1u

#define QUEUE_REACH_BYTES ((size_t)8 << 16) // aligned; an entry names one block of it
_Static_assert(PAGE_BYTES_MAX <= QUEUE_REACH_BYTES, "an entry leads to each block of a page");

KEEL_INLINE uint16_t queue_entry(const void* block) {
    return (uint16_t)((uintptr_t)block >> 3);
}
// The distance of an entry's block from the start of its page, divided by 8; plus QUEUE_CHAIN.
KEEL_INLINE unsigned queue_distance(const char* start, uint16_t entry) {
    return (uint16_t)(entry - queue_entry(start));
}
KEEL_INLINE struct block* queue_block(const char* start, uint16_t entry) {
    size_t distance = queue_distance(start, entry) & ~QUEUE_CHAIN;
    return (struct block*)(void*)(start + 8 * distance);
}

// A place as a number in its area. Row 0 has no places, so it is not 0.
_Static_assert(QUEUE_AREA_BYTES / sizeof(uint16_t) == UINT16_MAX + 1, "it has 16 bits");
KEEL_INLINE uint16_t queue_place_number(const uint16_t* place) {
    return (uint16_t)((uintptr_t)place / sizeof *place);
}

#define ROW_FIRST 1u // the index of the first entry in a row

KEEL_INLINE uint16_t* queue_own_row(const struct page* page, const struct page_use* use) {
    KEEL_ASSERT(KEEL_SECURE && use->queue_end != NULL);
    return queue_row_of_slice(use->queue_end, page->start);
}

// Makes the queue empty, whose only row is the own row.
KEEL_INLINE void queue_clear(struct page_use* use, uint16_t* own_row) {
    KEEL_ASSERT((uintptr_t)own_row % QUEUE_ROW_BYTES == 0);
    use->queue_first = use->queue_end = own_row + ROW_FIRST;
    use->queue_has_own = 1;
    use->chain_place = 0;
}

// The page ends, or its blocks are forgotten: gives the rows back except for the own row. Linear
// in their number. queue_clear has to follow.
void queue_end_rows(struct page* page);

// The block has no link. False if its entry is at the last place of a row: the caller calls
// queue_push_last.
KEEL_INLINE bool queue_try_push(struct page_use* use, const struct block* block) {
    KEEL_ASSERT(queue_row_start(use->queue_end) != use->queue_end);
    uint16_t* end = use->queue_end;
    atomic_order_for_signals(); // what is in the queue is free, also for heap/last_look.c
    *end++ = queue_entry(block);
    atomic_order_for_signals();
    if (KEEL_UNLIKELY((uintptr_t)end % QUEUE_ROW_BYTES == 0)) return false;
    use->queue_end = end;
    return true;
}

void queue_push_last(struct page* page);

// A thread that frees blocks of another thread's page leaves a hint in the second word of each: the
// entry of a block that comes a few places later in the list. A refill prefetches that block, so it
// does not wait for one block after the other. It does not trust hints: a prefetch of any address
// does no harm, and the program may have written there. It clears them. With KEEL_ZERO_ON_FREE only
// small blocks have hints.
#define HINT_BLOCK_BYTES_MIN 32u
KEEL_INLINE bool queue_has_hints(const struct page* page) {
    return KEEL_SECURE && page->block_bytes >= HINT_BLOCK_BYTES_MIN &&
           (page->block_bytes <= ZEROED_BYTES_MAX || block_guard.zero == 0);
}
KEEL_INLINE void block_set_hint(struct block* block, uint16_t entry) {
    ((uint64_t*)(void*)block)[1] = entry;
}
KEEL_INLINE uint16_t block_take_hint(struct block* block) {
    uint64_t* word = (uint64_t*)(void*)block + 1;
    uint16_t entry = (uint16_t)*word;
    *word = 0;
    return entry;
}

// A list of at least two blocks, whose last link is NULL.
void queue_push_list(struct page* page, struct block* head, struct block* tail);

// Takes the first `count` blocks, which are there, and puts them there in this order. Their links
// are NULL afterwards. `count` <= BIN_BLOCKS.
void queue_take(struct page* page, struct block** blocks, unsigned count, const uint8_t* order);
// The same for BIN_BLOCKS blocks, and faster. Then prefetches the block of the entry `next` places
// behind the one that is first now, if it is in the same row.
void queue_take_most(struct page* page, struct block** blocks, const uint8_t* order, size_t next);

// To visit all blocks: {use->queue_first, NULL} is before the first one.
struct queue_position {
    const uint16_t* place;
    struct block* block;
};
// The next block; NULL: there are no more.
struct block* queue_next(const struct page* page, struct queue_position* position);
// The same for the blocks that are in no chain.
struct block* queue_next_alone(const struct page* page, struct queue_position* position);

#endif

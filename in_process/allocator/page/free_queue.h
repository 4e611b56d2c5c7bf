// The free blocks of a page in the secure flavour: a queue, first in, first out.
//
// The queue is an array in the metadata (slices/window.h). So a refill reads the order of the
// blocks without a wait for the blocks themselves, and prefetches all that it takes. A program
// cannot overwrite the order. A block in the array contains NULL as its link (page/block_guard.h),
// and malloc verifies it.
//
//   | - | - | b7 | b2 | b9 + CHAIN | b4 | - | - |     QUEUE_PLACES places; the last is not used
//             ^ first                     ^ end       first == end: the queue is empty
//
//   When `end` reaches the last place, the entries move to the start of the array. A page with a
//   short queue does so seldom, and moves few bytes.
//
//   An entry is bits 3 .. 18 of a block's address. Blocks are at multiples of 16, so bit 3 of the
//   address is 0. CHAIN is there instead.
//
// CHAIN: the block is the first of several, linked by their links, and all of them come before the
// next entry. There are two reasons for a chain. Other threads pass the blocks that they free as a
// list, which becomes a chain in O(1). And when the array is full, frees append to its last entry.
// Only pages with at least QUEUE_PLACES - QUEUE_MOVE_MIN free blocks have a full array: pages of 16
// bytes nearly always, for an eighth of their 4,096 blocks waits; others when the program has freed
// many blocks.
#ifndef KEEL_ALLOCATOR_PAGE_FREE_QUEUE_H
#define KEEL_ALLOCATOR_PAGE_FREE_QUEUE_H

#include "allocator/page/block_guard.h"
#include "allocator/slices/window.h"

#define QUEUE_CHAIN 1u
#define QUEUE_NO_PLACE UINT16_MAX

#define QUEUE_AREA_BYTES ((size_t)8 << 16) // aligned; an entry names one block of it
_Static_assert(PAGE_BYTES_MAX <= QUEUE_AREA_BYTES, "an entry leads to each block of a page");

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

// The entries move if at least this many places become free, so that a free moves few of them on
// average: QUEUE_PLACES / QUEUE_MOVE_MIN.
#define QUEUE_MOVE_MIN (QUEUE_PLACES / 8)

// The array is at a multiple of its size.
KEEL_INLINE uint16_t* queue_places(const struct page_use* use) {
    uintptr_t end = (uintptr_t)use->queue_end;
    return (uint16_t*)(end - end % QUEUE_BYTES);
}
KEEL_INLINE unsigned queue_end_place(const struct page_use* use) {
    return (unsigned)(use->queue_end - queue_places(use));
}

// Makes the queue empty. `places`: its array.
KEEL_INLINE void queue_clear(struct page_use* use, uint16_t* places) {
    use->queue_end = places;
    use->queue_first = 0;
    use->chain_place = QUEUE_NO_PLACE;
}

// The link of the block is NULL. False, and the block is not in the queue, if the array is full:
// its entry is at the last place, and the caller calls queue_push_last.
KEEL_INLINE bool queue_try_push(struct page_use* use, const struct block* block) {
    uint16_t* end = use->queue_end;
    *end++ = queue_entry(block);
    if (KEEL_UNLIKELY((uintptr_t)end % QUEUE_BYTES == 0)) return false;
    use->queue_end = end;
    return true;
}

void queue_push_last(struct page* page);

// A list of at least two blocks, whose last link is NULL.
void queue_push_list(struct page* page, struct block* head, struct block* tail);

// Takes the first `count` blocks, which are there, and puts the block i at blocks[order[i]]. Their
// links are NULL afterwards. `count` <= BIN_BLOCKS.
void queue_take(struct page* page, struct block** blocks, unsigned count, const uint8_t* order);
// The same for BIN_BLOCKS blocks, and faster.
void queue_take_most(struct page* page, struct block** blocks, const uint8_t* order);

// To visit all blocks: {use->queue_first, NULL} is before the first one.
struct queue_position {
    unsigned place;
    struct block* block;
};
// The next block; NULL: there are no more.
struct block* queue_next(const struct page* page, struct queue_position* position);

#endif

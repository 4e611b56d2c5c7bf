// Pages of small blocks: carve, take, push. Only the thread that holds the owning heap calls these
// functions.
//
//   a 64 KiB page of class 5 (80 bytes), carved == 19, capacity == 819:
//   +----+----+----+-- .. --+----+------------------------------------------------+----+
//   | b0 | b1 | b2 |        | b18| never written                                  |rest|
//   +----+----+----+-- .. --+----+------------------------------------------------+----+
//   Each carved block is in exactly one of these places: local_free, the heap's bin, the program, a
//   remote batch or a remote queue.
#ifndef KEEL_ALLOCATOR_PAGE_PAGE_H
#define KEEL_ALLOCATOR_PAGE_PAGE_H

#include "allocator/page/block_guard.h"
#include "allocator/page/free_queue.h"
#include "allocator/page/size_class.h"
#include "allocator/space/page_map.h"
#include "allocator/warm/policy.h"
#include <stdbool.h>

// The smallest size of a system page. Where system pages are larger, carving only takes smaller
// steps than necessary.
#define SYSTEM_PAGE ((uintptr_t)4096)
#define CARVE_LINKS_MAX 16u
#define CARVE_WARM_MIN 4u // large blocks would otherwise need a refill each

// State of the memory after the carved blocks: a set of flags.
enum page_fresh {
    PAGE_ZERO = 1,   // it is zero
    PAGE_COLD = 2,   // behind `resident` it may not be: a system page's first touch is a page fault
    PAGE_AHEAD = 16, // carving may provide system pages ahead, by a call to the system
    PAGE_WARM = 4,   // all of it is resident
    PAGE_TRUSTED =
        8, // it was when the page began, although the page may never be filled (policy.h)
};

// The heap's list in which the page is. A full page (PAGE_FULL in its owner word) is UNLISTED.
// CLAIMED: it is in a queue, and the keeper may be emptying it (heap/relief.h). To take a page out
// of a queue or to claim it, a thread exchanges QUEUED for CURRENT or CLAIMED.
enum page_list { PAGE_UNLISTED, PAGE_CURRENT, PAGE_QUEUED, PAGE_CLAIMED };

KEEL_INLINE enum page_list page_list(const struct page* page) {
    return (enum page_list)atomic_get(&page_use(page)->list);
}
KEEL_INLINE void page_set_list(struct page* page, enum page_list list) {
    KEEL_ASSERT(list <= PAGE_CLAIMED);
    atomic_set(&page_use(page)->list, (uint8_t)list);
}

// True: the page was queued, and the caller's claim has succeeded.
KEEL_INLINE bool page_leave_queued(struct page* page, enum page_list list) {
    uint8_t queued = PAGE_QUEUED;
    return atomic_try_small(&page_use(page)->list, &queued, (uint8_t)list);
}

KEEL_INLINE bool page_is_full(const struct page* page) {
    return (atomic_get(&page->owner) & PAGE_FULL) != 0;
}

#define PAGE_BLOCKS_MIN 2u // the first free into a full page does not empty it
#define PAGE_BLOCKS_MAX (SLICE_BYTES / 8)

// Slices of a page of this class in a heap that has filled so many, up to FILLED_ENOUGH. The first
// page of wide blocks has only as many as two blocks need, and each page that was filled doubles
// that: most programs use few blocks of most classes, and a page may be resident at once.
KEEL_INLINE unsigned page_slices(unsigned size_class, unsigned filled) {
    KEEL_ASSERT(size_class < CLASS_COUNT);
    size_t bytes = size_class_bytes[size_class];
    if (bytes <= ONE_SLICE_BYTES_MAX) return 1;
    if (KEEL_SECURE) return WIDE_PAGE_SLICES; // the quarantine is an eighth of a page's blocks
    KEEL_ASSERT(filled <= FILLED_ENOUGH);
    unsigned slices = (bytes * PAGE_BLOCKS_MIN <= SLICE_BYTES ? 1u : 2u) << filled;
    return slices < WIDE_PAGE_SLICES ? slices : WIDE_PAGE_SLICES;
}

// System pages at the start of a free run that are resident, as far as is known. All of them: the
// last pages there were carved to their ends, or a large block was there.
unsigned page_resident(const char* start, unsigned slices);

// Makes `slices` slices at `start` a page of this class with no block carved. `owner` is the heap's
// address, `fresh` a set of enum page_fresh, `resident` the number of system pages at its start
// that are resident.
struct page* page_begin(char* start, unsigned slices, unsigned size_class, uintptr_t owner,
                        unsigned fresh, unsigned resident);

// Ends the page. No block of it may be live. The caller then owns its slices. In the secure flavour
// linear in the blocks, at most 4,096 of 16 bytes, and verifies that they are free.
void page_end(struct page* page);

// The last `untouched` slices of a page that has just begun occupy no memory.
void page_note_untouched(struct page* page, unsigned untouched);
// Ends the page and releases its slices. Those that it never reached and that occupied no memory
// before it are released as such: they would count as resident.
void page_release(struct page* page);

// A page that began warm on trust has been filled, or is empty: it does not count any more.
KEEL_INLINE void page_end_trust(struct page* page) {
    struct page_use* use = page_use(page);
    if ((use->fresh & PAGE_TRUSTED) == 0) return;
    use->fresh &= (uint8_t)~PAGE_TRUSTED;
    policy_trust(-(int64_t)(page->bytes / SLICE_BYTES));
}

// Makes the page one without carved blocks. `fresh`: the state of its memory now.
void page_uncarve(struct page* page, unsigned fresh);

// For the secure flavour, before the end of a page with live blocks: no block of it is live. Linear
// in the blocks.
void page_forget_blocks(struct page* page);

// Carves up to 16 blocks. All of them begin in the same system page, so carving takes at most one
// page fault. On a page with PAGE_WARM it carves at least 4, if the page has as many left. Returns
// the first one, which is not written: if it is the only one, its first touch is the program's.
// *rest: the others, linked. Returns NULL if all blocks are carved. The new blocks count as used.
// On a page with PAGE_ZERO they are zero except for their first word.
struct block* page_carve(struct page* page, struct block** rest);

// True if the next block to be carved is the first one that begins in its system page. Carving it
// may take a page fault.
KEEL_INLINE bool page_begins_system_page(const struct page* page) {
    KEEL_ASSERT(page->block_bytes != 0);
    uintptr_t next = (uintptr_t)page->start + (size_t)page_use(page)->carved * page->block_bytes;
    return (next & (SYSTEM_PAGE - 1)) < page->block_bytes;
}

// --- Free blocks ---------------------------------------------------------------------------------
//
// Plain flavour: one list, last in, first out. A refill takes all of it.
//
// Secure flavour: a queue, first in, first out (page/free_queue.h). The blocks that were freed last
// stay in it, as many as an eighth of the page: that many other frees separate the free of a block
// from its reuse. A refill takes at most BIN_BLOCKS of the others, in a random order. It puts them
// into an array, the heap's bin (heap/bin.h), and not into a list.

// For the secure flavour: blocks that stay in the queue.
KEEL_INLINE uint32_t page_quarantine(const struct page* page) {
    return (page->capacity + 4u) / 8;
}
// For the secure flavour: a refill that would take fewer blocks uses other memory.
KEEL_INLINE uint32_t page_take_min(const struct page* page) {
    uint32_t least = page->capacity / 64u + 1;
    return least < BIN_BLOCKS ? least : BIN_BLOCKS;
}

// True if page_take_free can take a block.
KEEL_INLINE bool page_can_give(const struct page* page) {
    const struct page_use* use = page_use(page);
    if (!KEEL_SECURE) return use->local_free != NULL;
    return use->carved - use->used >= page_quarantine(page) + page_take_min(page);
}

// For the secure flavour: true if a page of the queue has enough blocks to become the current one.
KEEL_INLINE bool page_is_worth_taking(const struct page* page) {
    const struct page_use* use = page_use(page);
    return use->carved < page->capacity || page_can_give(page);
}

// For the secure flavour: true if a refill can take BIN_BLOCKS blocks.
KEEL_INLINE bool page_can_give_most(const struct page* page) {
    KEEL_ASSERT(page_use(page)->used <= page_use(page)->carved);
    const struct page_use* use = page_use(page);
    return use->carved - use->used >= page_quarantine(page) + BIN_BLOCKS;
}
// Takes BIN_BLOCKS blocks; page_can_give_most is true.
void page_take_most(struct page* page, struct block** blocks);

// For the secure flavour, as page_take_free and page_carve: puts at most `limit` blocks into the
// array in front of `end`, and returns their number. limit <= BIN_BLOCKS.
unsigned page_take_oldest(struct page* page, struct block** end);
unsigned page_carve_into(struct page* page, struct block** end, unsigned limit);

// Takes the list of free blocks, O(1). The blocks count as used from now on, because they go to the
// bin. page_can_give is true.
KEEL_INLINE struct block* page_take_free(struct page* page) {
    struct page_use* use = page_use(page);
    struct block* list = use->local_free;
    KEEL_ASSERT(list != NULL && use->used < use->carved);
    use->local_free = NULL;
    use->used = use->carved;
    return list;
}

// Makes the set of free blocks empty.
KEEL_INLINE void page_unlink_all(struct page* page) {
    struct page_use* use = page_use(page);
    use->local_free = NULL;
    if (!KEEL_SECURE) return;
    queue_end_rows(page);
    queue_clear(use, queue_own_row(page, use));
}

// Puts a block back, without counting it. In the secure flavour its first word is 0. False: the
// caller calls queue_push_last.
KEEL_INLINE bool page_try_push(struct page* page, void* address) {
    struct page_use* use = page_use(page);
    struct block* block = address;
    if (KEEL_SECURE) return queue_try_push(use, block);
    block->next = use->local_free;
    use->local_free = block;
    return true;
}
// Counts blocks that were put back. True if the page has no used block left.
KEEL_INLINE bool page_count_pushed(struct page* page, unsigned count) {
    KEEL_ASSERT(count > 0 && count <= page_use(page)->used);
    struct page_use* use = page_use(page);
    atomic_order_for_signals(); // `used` last, see heap/relief.c; the compiler alone has to know
    use->used -= count;
    return use->used == 0;
}

// Puts a block back. True if the page has no used block left.
KEEL_INLINE bool page_push(struct page* page, void* address) {
    if (KEEL_SECURE) ((struct block*)address)->next = NULL;
    bool pushed = page_try_push(page, address);
    if (KEEL_SECURE && !pushed) queue_push_last(page);
    return page_count_pushed(page, 1);
}

// Puts a list of `count` blocks back, O(1). True if the page has no used block left.
KEEL_INLINE bool page_push_list(struct page* page, struct block* head, struct block* tail,
                                unsigned count) {
    KEEL_ASSERT(head != NULL && tail != NULL && count > 0);
    struct page_use* use = page_use(page);
    if (KEEL_SECURE && head == tail) return page_push(page, head);
    block_set_next(tail, use->local_free); // NULL in the secure flavour
    if (KEEL_SECURE)
        queue_push_list(page, head, tail);
    else
        use->local_free = head;
    return page_count_pushed(page, count);
}

// The free blocks one after the other, not those in the heap's bin. `position` begins as
// page_free_begin(page).
KEEL_INLINE struct queue_position page_free_begin(const struct page* page) {
    return (struct queue_position){KEEL_SECURE ? page_use(page)->queue_first : NULL, NULL};
}
// NULL: there are no more.
KEEL_INLINE struct block* page_free_next(const struct page* page, struct queue_position* position) {
    if (KEEL_SECURE) return queue_next(page, position);
    bool begins = position->block == NULL;
    position->block = begins ? page_use(page)->local_free : position->block->next;
    return position->block;
}

KEEL_INLINE bool page_has_free(const struct page* page) {
    const struct page_use* use = page_use(page);
    bool free = KEEL_SECURE ? use->carved != use->used : use->local_free != NULL;
    return free || use->carved < page->capacity;
}

// The partition of a page of small blocks or of a large block.
KEEL_INLINE unsigned page_partition(const struct page* page) {
    return page_is_large(page) ? page->partition : class_partition(page->size_class);
}

// True if a block of this page begins at `address`. Owner only.
KEEL_INLINE bool page_begins_block(const struct page* page, const void* address) {
    KEEL_ASSERT(page->block_bytes != 0);
    uint32_t offset = (uint32_t)((const char*)address - page->start);
    return offset % page->block_bytes == 0 && offset / page->block_bytes < page_use(page)->carved;
}

// Verifies the invariants of one page, walking its list.
bool page_check(const struct page* page);

#endif

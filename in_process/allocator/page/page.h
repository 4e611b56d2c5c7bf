// Pages of small blocks: carve, take, push. All owner-only: called by the thread that holds the
// owning heap.
//
//   a 64 KiB page of class 5 (80 bytes), carved == 19, capacity == 819:
//   +----+----+----+-- .. --+----+------------------------------------------------+----+
//   | b0 | b1 | b2 |        | b18| never written                                  |rest|
//   +----+----+----+-- .. --+----+------------------------------------------------+----+
//   carved blocks are each in exactly one of: local_free, the bin of the heap, the program, a batch or inbox.
#ifndef KEEL_ALLOCATOR_PAGE_PAGE_H
#define KEEL_ALLOCATOR_PAGE_PAGE_H

#include "allocator/arena/page_map.h"
#include "allocator/page/size_class.h"
#include <stdbool.h>

#define CARVE_LINKS_MAX 16u

// Flags. What lies behind the carved blocks of a page ..
enum page_fresh {
    PAGE_ZERO = 1, // .. is zero
    PAGE_COLD = 2, // .. may not be there yet: the first touch of a system page is a page fault
};

// PAGE_FULL: no free block is known of, and none is left to carve; in no list.
enum page_list { PAGE_UNLISTED, PAGE_CURRENT, PAGE_QUEUED, PAGE_FULL };

KEEL_INLINE enum page_list page_list(const struct page* page) {
    return (enum page_list)atomic_get(&page_use(page)->list);
}
KEEL_INLINE void page_set_list(struct page* page, enum page_list list) {
    atomic_set(&page_use(page)->list, (uint8_t)list);
}

// Blocks in use.
KEEL_INLINE uint32_t page_used(const struct page* page) {
    return page_list(page) == PAGE_FULL ? page->capacity : page_use(page)->until_look;
}

// Slices of a page of this class.
KEEL_INLINE unsigned page_slices(unsigned size_class) {
    return size_class_bytes[size_class] <= ONE_SLICE_BYTES_MAX ? 1 : WIDE_PAGE_SLICES;
}

// Makes the run at `start` a page of this class with nothing carved. `owner` is the heap's address,
// `fresh` a set of enum page_fresh.
struct page* page_begin(char* start, unsigned size_class, uintptr_t owner, unsigned fresh);

// Ends it: no block of it may be live. Its slices are nobody's page afterwards.
void page_end(struct page* page);

// Carves up to 16 blocks, and none whose first byte lies in another system page than the first
// one's: at most one page fault. NULL if all are carved. The blocks count as used. On a page with
// PAGE_ZERO they are zero but for their first word.
struct block* page_carve(struct page* page);

// True if the next block to be carved is the first to begin in its system page, which may cost a page fault.
bool page_begins_system_page(const struct page* page);

// Takes the whole list of free blocks, O(1). They count as used from then on (they go to the bin).
KEEL_INLINE struct block* page_take_free(struct page* page) {
    struct page_use* use = page_use(page);
    struct block* list = use->local_free;
    use->local_free = NULL;
    use->until_look = use->carved;
    return list;
}

// One block comes home. True if somebody must look at the page: it has none in use any more, or was full.
KEEL_INLINE bool page_push(struct page* page, void* address) {
    struct page_use* use = page_use(page);
    struct block* block = address;
    block->next = use->local_free;
    use->local_free = block;
    return --use->until_look == 0;
}

// A list of `count` blocks comes home to a page that is not full, O(1). True if that leaves none used.
KEEL_INLINE bool page_push_list(struct page* page, struct block* head, struct block* tail,
                                unsigned count) {
    struct page_use* use = page_use(page);
    tail->next = use->local_free;
    use->local_free = head;
    use->until_look -= count;
    return use->until_look == 0;
}

KEEL_INLINE bool page_has_free(const struct page* page) {
    const struct page_use* use = page_use(page);
    return use->local_free != NULL || use->carved < page->capacity;
}

// True if `address` is where a block of this page begins. Owner only.
KEEL_INLINE bool page_begins_block(const struct page* page, const void* address) {
    uint32_t offset = (uint32_t)((const char*)address - page->start);
    return offset % page->block_bytes == 0 && offset / page->block_bytes < page_use(page)->carved;
}

// Verifies the invariants of one page, walking its list.
bool page_check(const struct page* page);

#endif

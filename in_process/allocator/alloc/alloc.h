// Allocate and free: the inline fast paths, and the functions of the slow paths.
//
// Terms (docs/reference/glossary.md has all of them):
//
//   size class    one of 81 block sizes; the size of a request is rounded up to the next one
//   slice         64 KiB of address space
//   run           neighbouring slices that are allocated together
//   page          a run of 1, 2 or 4 slices with blocks of one size class; not a page of the system
//   heap          what a thread allocates from: its bins and pages
//   bin           the heap's list of free blocks of one size class
//   current page  the page from which the heap refills the bin of a size class
//   carve         to make new blocks in the part of a page that was never used
//   remote free   a free of a block in the page of another heap
//   batch         freed blocks of one page of another heap, collected to send them together
//   remote queue  the pages of a heap that have received batches
//   drain         to move the blocks of received batches back into the free lists of their pages
//   parked heap   the heap of a thread that has ended
//   keeper        the background thread that does maintenance
//   quantum       one small step of maintenance, done by a thread of the program if no keeper runs
//                 (alloc_quantum)
//   guarded block a block beside inaccessible memory; guarded sampling chooses the few allocations
//                 that get one
//   partition     secure flavour: one of four groups of blocks. Two groups never use the same
//                 address, except for blocks of 4 MiB or more (space/partition.h)
//
// malloc:
//
//   malloc(size) tries these functions until one returns a block:   override/override.c, api/keel.c
//   |- alloc_hit, for sizes up to 1 KiB: takes the first block of the bin
//   |- alloc_from_bin, for sizes up to 64 KiB: does the same
//   |  `- if the bin is empty: alloc_from_current takes the free list of the current page
//   `- alloc_slow, for all sizes                              alloc/allocate.c
//      |- guarded sampling has chosen this call: a guarded block    guarded/sample.h
//      |- size up to 64 KiB: refill the bin from the first of these that has blocks:
//      |  |- the free list of the current page                page_take_free, O(1)
//      |  |- the same list after a drain                      heap_drain, <= 32 pages
//      |  |- newly carved blocks                              page_carve, <= 16 blocks
//      |  |- the next page of the size class                  heap_next_page, O(1)
//      |  `- a fresh page                                     heap_fresh_page; see space/run.h
//      `- larger: a run of slices, or a mapping               large_allocate
//
// free: each slice has an owner word. In a slice of a page, the owner word is the address of the
// page's heap. It also has a flag if free must not use the fast path: PAGE_FULL (all blocks of the
// page are used), or PAGE_INTERIOR (the slice is not the first one of its page).
//
//   free(p)
//   `- free_block: page = page_of(p)
//      |- the owner word is this thread's heap: put p into the free list of its page
//      |  `- the page has no used blocks now: free_page_emptied     alloc/free.c
//      `- otherwise: free_slow. The owner word shows what p belongs to:
//         |- this thread's heap, with a flag: put p into the free list of its page
//         |- the heap of another thread: put p into a batch. Later one compare-and-swap passes the
//         |  batch to the page                                 heap/remote_queue.h
//         |- a heap from kl_heap_new: lock it, and put p into the free list of its page
//         |- a large block (no page): release its slices, or keep them for the next large block
//         |- a large block with its own mapping: cache the mapping, or unmap it
//         |- a guarded block: make it inaccessible, now or later
//         `- nothing, because the word is 0: if p is NULL, do nothing. If p is in unused memory of
//            Keel, end the process. Otherwise p is a block of another allocator: count it and
//            ignore it.
//
// No function here sets errno. A function that fails returns NULL.
#ifndef KEEL_ALLOCATOR_ALLOC_ALLOC_H
#define KEEL_ALLOCATOR_ALLOC_ALLOC_H

#include "allocator/heap/bin.h"
#include "allocator/heap/pool.h"
#include "base/attributes.h"
#include <string.h>

// If a refill finds a free list with fewer blocks than this, it may also carve new blocks.
#define REFILL_SHORT 16u

// Removes and returns the first block of the bin; NULL if the bin is empty.
KEEL_INLINE struct block* bin_pop(struct heap* heap, unsigned size_class) {
    struct block* block = bin_first(heap, size_class);
    if (KEEL_LIKELY(block != NULL)) bin_take_first(heap, size_class, block);
    return block;
}

// The usable bytes of a block of this class for a request.
KEEL_INLINE size_t usable_of_request(unsigned size_class, size_t size) {
    KEEL_ASSERT(size_class < CLASS_COUNT);
    bool exact = block_may_have_tail(size_class_bytes[size_class]);
    return exact ? size : request_class_usable(size_class);
}

// Sets all usable bytes of a block to zero, not only the requested ones, because kl_rezalloc and
// kl_recalloc may use the other bytes later. If the blocks of the bin are known to be zero, clears
// only the link of the list.
KEEL_INLINE void* bin_zeroed(struct heap* heap, unsigned size_class, struct block* block,
                             size_t size) {
    KEEL_ASSERT(block != NULL);
    if (KEEL_SECURE && block_is_zeroed(size_class_bytes[size_class])) return block;
    block->next = NULL;
    return heap->bin_zero[size_class] ? (void*)block
                                      : memset(block, 0, usable_of_request(size_class, size));
}

// Secure flavour: gives the block of a request the tail that it should have. NULL: none.
KEEL_INLINE void* block_sealed(void* block, unsigned size_class, size_t size) {
    if (KEEL_SECURE && block != NULL) block_seal(block, size_class_bytes[size_class], size);
    return block;
}

// Returns the first block of the partition's bin for this size. Returns NULL if the bin is empty or
// `size` is too large. The caller then calls alloc_from_bin or alloc_slow.
KEEL_INLINE void* alloc_hit_in(size_t size, unsigned partition) {
    KEEL_ASSERT(partition < PARTITION_COUNT);
    // In the secure flavour not 0, either (page/empty_block.h).
    if (KEEL_UNLIKELY(size - KEEL_SECURE > REQUEST_SMALL_MAX - KEEL_SECURE)) return NULL;
    if (KEEL_SECURE) {
        const struct block_guard* guard = &block_guard;
        KEEL_OPAQUE(guard);
        return bin_try_pop(thread_heap, request_row(guard, size), partition, guard->key);
    }
    return bin_pop(thread_heap, request_class_small(size) + partition * SIZE_COUNT);
}
KEEL_INLINE void* alloc_hit(size_t size) {
    return alloc_hit_in(size, 0);
}

// The functions below allocate in the partition that the thread has entered (partition_enter in
// space/partition.h). If the thread has entered none, they allocate in partition 0.

// Maintenance on the program's thread. When maintenance is due, a refill takes the slow path even
// if the fast path could refill the bin. The slow path then does this maintenance:
//
//   - It drains the remote queue. Otherwise a thread whose current pages always have free blocks
//     would never take back its blocks that other threads have freed.
//   - If no keeper runs, it does one quantum, and one step of work for a parked heap.
//
// Each refill has a weight: the number of its blocks plus the number of system pages that these
// occupy, but at most REFILL_WEIGHT_MAX. Maintenance is due when the weights since the last
// maintenance add up to MAINTENANCE_WEIGHT. A refill of blocks of several KiB brings only one or a
// few blocks. Its weight is therefore often below the maximum.
#define REFILL_WEIGHT_MAX 16u
#define MAINTENANCE_WEIGHT (8 * REFILL_WEIGHT_MAX)
// While work is left, maintenance is due at this smaller sum of weights. Work is left if more
// remote frees wait after a drain. If no keeper runs, work is also left while there is unused
// memory to return, or a heap on the watch list (heap/watch.h).
#define MAINTENANCE_WEIGHT_BEHIND (2 * REFILL_WEIGHT_MAX)
// If maintenance finds nothing to do, the required sum doubles, up to the first value. Without a
// keeper and with warm memory, which may have to be returned later, up to the second one.
#define MAINTENANCE_WEIGHT_IDLE (128 * REFILL_WEIGHT_MAX)
#define MAINTENANCE_WEIGHT_WAITS (64 * REFILL_WEIGHT_MAX)
KEEL_INLINE bool maintenance_is_due(const struct heap* heap) {
    return heap->refilled >= heap->maintenance_at;
}
KEEL_INLINE void refill_weigh(struct heap* heap, const struct page* page, uint32_t blocks) {
    KEEL_ASSERT(blocks > 0 || page->block_bytes != 0);
    uint64_t weight = blocks + ((uint64_t)blocks * page->block_bytes / SYSTEM_PAGE);
    heap->refilled += weight < REFILL_WEIGHT_MAX ? weight : REFILL_WEIGHT_MAX;
}

// Secure flavour: a refill with BIN_BLOCKS blocks of the current page. Returns the first one.
KEEL_INLINE struct block* alloc_from_queue(struct heap* heap, unsigned size_class,
                                           struct page* page) {
    KEEL_ASSERT(bin_first(heap, size_class) == NULL && page_can_give_most(page));
    _Static_assert(REFILL_WEIGHT_MAX <= BIN_BLOCKS, "such a refill has the greatest weight");
    page_take_most(page, bin_end(heap, size_class) - BIN_BLOCKS);
    bin_set_count(heap, size_class, BIN_BLOCKS);
    heap->bin_zero[size_class] = 0;
    struct block* block = *bin_slot(heap, size_class);
    bin_take_first(heap, size_class, block);
    atomic_bump(&heap->counts[HEAP_REFILLS], 1);
    atomic_bump(&heap->given[size_class], BIN_BLOCKS);
    heap->refilled += REFILL_WEIGHT_MAX;
    return block;
}

// Secure flavour, the same: carves blocks if this takes no page fault and no other thread has freed
// blocks, which would be taken first. Else returns NULL.
KEEL_NOINLINE struct block* alloc_carved(struct heap* heap, unsigned size_class, struct page* page);

// The most frequent refill. Takes the free list of the current page, and returns its first block.
// In these cases it returns NULL, and the slow path does the refill:
//
//   - The list is empty. (In the secure flavour alloc_carved may then carve blocks.)
//   - The list has fewer than REFILL_SHORT blocks, and the page can carve more without a page
//     fault.
//   - Maintenance is due.
//   - Guarded sampling has chosen a block of the list.
KEEL_INLINE struct block* alloc_from_current(struct heap* heap, unsigned size_class) {
    struct page* page = heap->current[size_class];
    if (page == NULL || maintenance_is_due(heap)) return NULL;
    const struct page_use* use = page_use(page);
    if (KEEL_SECURE && KEEL_LIKELY(page_can_give_most(page)))
        return alloc_from_queue(heap, size_class, page);
    if (!page_can_give(page)) return KEEL_SECURE ? alloc_carved(heap, size_class, page) : NULL;
    uint32_t before = use->used;
    uint32_t length = use->carved - before;
    if (length < REFILL_SHORT && use->carved < page->capacity && !page_begins_system_page(page))
        return NULL;
    uint32_t* guard_left = &heap->guard_left[size_class];
    if (!KEEL_SECURE && KEEL_UNLIKELY(*guard_left != 0)) { // guarded sampling is on
        if (*guard_left <= length) return NULL;
        *guard_left -= length;
    }
    struct block* block =
        KEEL_SECURE ? bin_take_oldest(heap, size_class, page) : page_take_free(page);
    heap->bin_zero[size_class] = 0;
    bin_take_first(heap, size_class, block);
    atomic_bump(&heap->counts[HEAP_REFILLS], 1);
    uint32_t taken = use->used - before; // secure flavour: may be less than `length`
    atomic_bump(&heap->given[size_class], taken);
    refill_weigh(heap, page, taken);
    return block;
}

// Returns a block for a size up to 64 KiB, from the bin or from the current page. Its content is
// undefined. NULL: the caller calls alloc_slow.
KEEL_INLINE void* alloc_from_bin(size_t size) {
    if (KEEL_UNLIKELY(size > REQUEST_CLASS_MAX)) return NULL;
    struct heap* heap = thread_heap;
    unsigned size_class = request_class(size);
    struct block* block = bin_pop(heap, size_class);
    if (block == NULL) block = alloc_from_current(heap, size_class);
    return block_sealed(block, size_class, size);
}

// Like alloc_from_bin. The block is at a multiple of `alignment`, a power of two.
KEEL_INLINE void* alloc_aligned_from_bin(size_t size, size_t alignment) {
    unsigned size_class = request_class_aligned(size, alignment);
    if (KEEL_UNLIKELY(size_class == CLASS_COUNT)) return NULL;
    struct heap* heap = thread_heap;
    struct block* block = bin_pop(heap, size_class);
    if (block == NULL) block = alloc_from_current(heap, size_class);
    return block_sealed(block, size_class, size);
}

// The same, for callers that have not tried alloc_hit. (In the plain flavour it would do the same.)
KEEL_INLINE void* alloc_hit_or_from_bin(size_t size) {
    void* block = KEEL_SECURE ? alloc_hit_in(size, partition_now()) : NULL;
    return KEEL_LIKELY(block != NULL) ? block : alloc_from_bin(size);
}

// The same. All usable bytes are zero.
KEEL_INLINE void* alloc_from_bin_zeroed(size_t size) {
    struct block* block = alloc_hit_or_from_bin(size);
    if (KEEL_UNLIKELY(block == NULL)) return NULL;
    return bin_zeroed(thread_heap, request_class(size), block, size);
}

// Allocates a block of any size. It is aligned to 16 bytes, or to 8 bytes if size <= 8. Returns
// NULL if there is no memory or if size > KEEL_SIZE_MAX.
KEEL_NOINLINE void* alloc_slow(size_t size);
// Like alloc_slow. All usable bytes are zero.
void* alloc_zeroed(size_t size);
// Like alloc_slow. realloc calls it for the new block, which may grow again. A large block
// therefore gets free slices behind it, or, from 4 MiB on, a mapping of its own.
void* alloc_movable(size_t size);

// Like alloc_slow, at a multiple of `alignment`, a power of two.
void* alloc_aligned(size_t size, size_t alignment);

// Like alloc_aligned. If `alignment` is 0 or 1, like alloc_slow. If `zero` is true, all usable
// bytes are zero.
void* alloc_plain(size_t size, size_t alignment, bool zero);

// Called after the last used block of a page was freed. Releases the page, unless it is a current
// page.
KEEL_NOINLINE void free_page_emptied(struct page* page);
// Secure flavour: finishes a free, after page_try_push has failed.
KEEL_NOINLINE void free_into_full_queue(struct page* page);
// `function` gets the blocks that are not Keel's. False: they are not its blocks either.
void free_set_elsewhere(bool (*function)(void* block));
// Passes the block to that function. False: it is not freed.
bool free_pass_on(void* block);
// Frees a block in the cases that free_block does not handle (see the outline above).
KEEL_NOINLINE void free_slow(void* address, struct page* page);

// Secure flavour: the number of the calling thread, for messages about faults. 0 if the thread has
// no heap. Plain flavour: always 0.
KEEL_INLINE uint32_t thread_of_heap(void) {
    return KEEL_SECURE ? atomic_get(&thread_heap->thread_id) : 0;
}

KEEL_INLINE struct page* free_page_of(const void* address) {
    return KEEL_SECURE ? page_of_low(address) : page_of(address);
}

// Frees a block in a page of the calling thread's heap.
KEEL_INLINE void free_own(struct page* page, void* address) {
    if (KEEL_UNLIKELY(!block_try_free(page, address, thread_heap->free_mark)))
        free_slow(address, page);
    else if (KEEL_UNLIKELY(!page_try_push(page, address)))
        free_into_full_queue(page);
    else if (KEEL_UNLIKELY(page_count_pushed(page, 1)))
        free_page_emptied(page);
}

KEEL_INLINE void free_block(void* address) {
    address = address_untagged(address);
    struct page* page = free_page_of(address);
    if (KEEL_LIKELY(atomic_get(&page->owner) == (uintptr_t)thread_heap))
        free_own(page, address);
    else
        free_slow(address, page);
}

// Only for the secure flavour. Frees the block, or ends the process if `size` or `alignment` does
// not match the block. Alignment 1 matches every block. `exact` is true if no realloc can have
// resized the block (operator delete). If it is false, the block may be up to twice as large as
// `size`: a realloc to half of the usable size or more leaves a block where it is.
KEEL_NOINLINE void free_sized_slow(void* address, size_t size, size_t alignment, bool exact);
// 1: a realloc has left a block where it is that should be smaller than half, because there was no
// memory for a copy.
extern atomic_state shrink_was_refused;

// Like free_block. The caller passes the size and the alignment that it requested for the block.
KEEL_INLINE void free_sized_block(void* address, size_t size, size_t alignment, bool exact) {
    if (KEEL_SECURE) {
        struct page* page = free_page_of(address_untagged(address));
        if (alignment == 1 && KEEL_LIKELY(size <= REQUEST_SMALL_MAX) &&
            KEEL_LIKELY(atomic_get(&page->owner) == (uintptr_t)thread_heap) &&
            KEEL_LIKELY(page->size_class == request_class_small(size))) {
            free_own(page, address_untagged(address));
        } else {
            free_sized_slow(address, size, alignment, exact);
        }
    } else {
        free_block(address);
    }
}

// Like free_block, but for any value of `address`. Some values cannot be an address in a process
// (address_is_possible). free_block would crash for such a value. free_any treats it like the
// address of a block of another allocator.
void free_any(void* address);

// Like realloc, but only for a live block and a size above 0. If there is no memory, returns NULL,
// and the old block is unchanged. The block stays in its partition.
void* reallocate(void* address, size_t size);

// Returns true if the block's usable size is at least `size`.
bool reallocate_in_place(void* address, size_t size);

// Returns the partition of a live block; 0 for other addresses.
unsigned block_partition(const void* address);

// Returns the number of usable bytes of the block. Returns 0 for NULL and for addresses that are
// not Keel's.
size_t block_usable_bytes(const void* address);

// The same, but checks the address first in the secure flavour. If it is in memory of Keel and is
// not a live block, the function ends the process.
size_t block_verified_bytes(const void* address);

// Returns true if `address` is in a page, where the block may be live or free. Also returns true if
// it is in the first slice of a large block.
bool block_is_ours(const void* address);

// Returns the usable size of a block from malloc(size). Above 64 KiB the result is a minimum: the
// block can have more usable bytes.
size_t good_size(size_t size);

// Does one quantum: returns at most one unused slice, and at most 1 MiB of a freed mapping, to the
// system (warm/reserve.h). Does nothing if no memory is due, if a keeper runs, or if the calling
// thread is a realtime thread.
void alloc_quantum(void);

// Does one step of work for a parked heap. The caller has taken the heap from the pool of heaps
// (heap/pool.h). Returns false if there is nothing to do now.
//
// If the remote queue of the heap is not empty, the step drains it once. Otherwise the step returns
// blocks from bins to their pages and releases empty pages. It continues where the last step
// stopped, and does at most 256 units of work. A returned block is 1 unit, a released page 16.
bool reclaim_step(struct heap* heap);

// Looks at the current pages of a few size classes. It begins with the class after the one where
// the last look ended. The heap gives up such a page if two conditions hold: the page has no used
// blocks, and the heap has not used the page's size class since the last look at this class. Does
// at most 256 units of work (see reclaim_step).
//
// Usually it looks at only two classes, so that the heap has much time to use a class between two
// looks at it, and keeps the pages of the classes that it uses. It looks at more, up to a quarter
// of all classes, while pages become empty and the heap obtains no fresh page
// (heap->emptied_streak). The thread may then be about to sleep.
#define RECLAIM_LOOK_CLASSES 2u
void reclaim_look(struct heap* heap);

// Called before the heap obtains a fresh page, and after a page has become empty. If more than a
// few classes have a current page, it calls reclaim_look. So a thread that sleeps after it has used
// many classes keeps the pages of only a few.
//
// Does nothing for a realtime heap. Also does nothing in the secure flavour. There, a page keeps
// freed blocks for a while before they are reused (quarantine). If the heap gave up the page,
// another size class could reuse the memory of these blocks too early.
#define RECLAIM_FEW_CLASSES 4u
KEEL_INLINE void reclaim_unused_classes(struct heap* heap, bool emptied) {
    if (KEEL_SECURE) return;
    heap->emptied_streak = emptied ? heap->emptied_streak + 1 : 0;
    if (heap->class_count > RECLAIM_FEW_CLASSES && !heap_is_realtime(heap)) reclaim_look(heap);
}

// Takes a heap from the watch list (heap/watch.h). If this heap is parked, calls reclaim_step for
// it. Returns false if it did no step. Slow paths call this function if no keeper runs.
bool reclaim_parked(void);

// Drains the remote queue of a heap, and releases the pages that have no used blocks. The heap must
// be the calling thread's, or one that no thread uses and that the caller has taken. Linear in the
// length of the queue and the number of pages.
void reclaim_heap(struct heap* heap);

// Drains this thread's heap and all parked heaps. Then returns the memory of all free slices and
// cached mappings to the system. Not bounded.
void reclaim_all(void);

#endif

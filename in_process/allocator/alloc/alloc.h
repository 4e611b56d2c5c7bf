// Allocate and free: the inline fast paths, and the entries to the slow paths.
//
//   malloc(size)                                              api/override.c, api/keel.c
//   `- alloc_hit: class = table[size]; b = heap->bin[class]; heap->bin[class] = b->next
//      `- (bin empty, or size > 1 KiB) alloc_from_bin, for sizes up to 64 KiB: the bin of the
//         size's class; if it is empty, alloc_from_current
//         `- (nothing there) alloc_slow                       alloc/allocate.c
//            |- chosen by guarded sampling: a guarded block   guarded/sample.h
//            |- size <= 64 KiB: pop the bin of its class, else refill it from:
//            |  |- the current page's free list               page_take_free, O(1)
//            |  |- that list after draining the remote queue  heap_drain, <= 32 pages
//            |  |- newly carved blocks                        page_carve, <= 16 links
//            |  |- the next page of the class                 heap_next_page, O(1)
//            |  `- a fresh page: a slice that the heap kept,  heap_fresh_page;
//            |     else a run of slices                       bound: slices/run.h
//            `- larger: a run of slices, or a mapping         large_allocate
//
//   free(p)
//   `- free_block: page = page_of(p)
//      |- page->owner == heap: push, decrement `used`
//      |  `- the page is empty now: free_page_emptied         alloc/free.c
//      `- the owner word differs: free_slow
//         |- page of this heap, but the owner word has a flag: push, decrement `used`. The flag is
//         |  PAGE_FULL if all blocks of the page are used, and PAGE_INTERIOR if p is not in the
//         |  first slice of its page (each slice has an owner word)
//         |- page of another heap: p goes into a batch; later one compare-and-swap puts the
//         |  batch into the remote list of the page       heap/remote_queue.h
//         |- page of a user heap: under the lock of that heap
//         |- large: its slices are released, or the heap keeps them for its next large block;
//         |  jumbo (a mapping): cached or unmapped; guarded: made inaccessible, now or later
//         `- no owner. If p is NULL: do nothing. If p is in memory of Keel that is not in use:
//            panic. If p is any other address (a foreign block): count it and ignore it
//
// docs/reference/glossary.md defines the terms. No function here sets errno: NULL is the only sign
// of failure.
#ifndef KEEL_ALLOCATOR_ALLOC_ALLOC_H
#define KEEL_ALLOCATOR_ALLOC_ALLOC_H

#include "allocator/heap/bin.h"
#include "allocator/heap/pool.h"
#include "base/attributes.h"
#include <string.h>

// A refill puts the free list of a page into an empty bin. If the list has fewer blocks than this,
// the refill may also carve new blocks.
#define REFILL_SHORT 16u

// Removes and returns the first block of the bin; NULL if the bin is empty.
KEEL_INLINE struct block* bin_pop(struct heap* heap, unsigned size_class) {
    struct block* block = bin_first(heap, size_class);
    if (KEEL_LIKELY(block != NULL)) bin_take_first(heap, size_class, block);
    return block;
}

// Sets all usable bytes of a popped block to zero. kl_rezalloc and kl_recalloc rely on that.
KEEL_INLINE void* bin_zeroed(struct heap* heap, unsigned size_class, struct block* block) {
    block->next = NULL;
    return heap->bin_zero[size_class] ? (void*)block
                                      : memset(block, 0, request_class_usable(size_class));
}

// Returns a block of at least `size` bytes if the bin has one. If it returns NULL, the
// caller calls alloc_from_bin or alloc_slow.
KEEL_INLINE void* alloc_hit(size_t size) {
    if (KEEL_UNLIKELY(size > REQUEST_SMALL_MAX)) return NULL;
    return bin_pop(thread_heap, request_class_small(size));
}

// Maintenance on the program's thread. Now and then a refill takes the slow path, which does this
// work even if the bin could be refilled without it:
//
//   - It drains the remote queue. Otherwise a thread that never needs a fresh page would never
//     receive its remote frees.
//   - If no keeper runs, it does a quantum (alloc_quantum) and one step for a parked heap.
//
// The work is due when the refills since the last time have a total weight of MAINTENANCE_WEIGHT.
// The weight of a refill is the number of its blocks plus the number of system pages that they
// occupy, and at most REFILL_WEIGHT_MAX. If refills were only counted, a program whose refills have
// one block each would do the work once for every 8 blocks.
#define REFILL_WEIGHT_MAX 16u
#define MAINTENANCE_WEIGHT (8 * REFILL_WEIGHT_MAX)
// The smaller weight that applies while work is left: remote frees wait after a drain; or, without
// a keeper, there is surplus memory or a heap on the watch list (heap/watch.h).
#define MAINTENANCE_WEIGHT_BEHIND (2 * REFILL_WEIGHT_MAX)
// If maintenance finds nothing to do, the weight doubles, up to this value.
#define MAINTENANCE_WEIGHT_IDLE (128 * REFILL_WEIGHT_MAX)
KEEL_INLINE bool maintenance_is_due(const struct heap* heap) {
    return heap->refilled >= heap->maintenance_at;
}
KEEL_INLINE void refill_weigh(struct heap* heap, const struct page* page, uint32_t blocks) {
    uint64_t weight = blocks + ((uint64_t)blocks * page->block_bytes / SYSTEM_PAGE);
    heap->refilled += weight < REFILL_WEIGHT_MAX ? weight : REFILL_WEIGHT_MAX;
}

// The most frequent refill: takes the free list of the current page, and returns its first block.
// Returns NULL, and leaves the refill to the slow path, in these cases:
//
//   - The list is empty.
//   - The list has fewer than REFILL_SHORT blocks, and more blocks can be carved without a page
//     fault.
//   - Maintenance is due.
//   - Guarded sampling has chosen a block of the list.
KEEL_INLINE struct block* alloc_from_current(struct heap* heap, unsigned size_class) {
    struct page* page = heap->current[size_class];
    if (page == NULL || maintenance_is_due(heap)) return NULL;
    const struct page_use* use = page_use(page);
    if (!page_can_give(page)) return NULL;
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

// Returns a block for any size that has a class, from the bin or from alloc_from_current. The block
// is not zeroed.
KEEL_INLINE void* alloc_from_bin(size_t size) {
    if (KEEL_UNLIKELY(size > REQUEST_CLASS_MAX)) return NULL;
    struct heap* heap = thread_heap;
    unsigned size_class = request_class(size);
    struct block* block = bin_pop(heap, size_class);
    return block != NULL ? block : alloc_from_current(heap, size_class);
}

// Like alloc_from_bin, for a block at a multiple of `alignment`, a power of two.
KEEL_INLINE void* alloc_aligned_from_bin(size_t size, size_t alignment) {
    unsigned size_class = request_class_aligned(size, alignment);
    if (KEEL_UNLIKELY(size_class == CLASS_COUNT)) return NULL;
    struct heap* heap = thread_heap;
    struct block* block = bin_pop(heap, size_class);
    return block != NULL ? block : alloc_from_current(heap, size_class);
}

// Like alloc_from_bin, but zeroed.
KEEL_INLINE void* alloc_from_bin_zeroed(size_t size) {
    struct block* block = alloc_from_bin(size);
    return KEEL_LIKELY(block != NULL) ? bin_zeroed(thread_heap, request_class(size), block) : NULL;
}

// Returns NULL if there is no memory or size > KEEL_SIZE_MAX. The block is aligned to 16 bytes, or
// to 8 bytes if size <= 8.
KEEL_NOINLINE void* alloc_slow(size_t size);
void* alloc_zeroed(size_t size);
// Like alloc_slow, for the new block of a realloc. A large block is placed so that it can grow: a
// block of less than 4 MiB has free slices behind it, and a larger one is a mapping.
void* alloc_movable(size_t size);

// `alignment` is a power of two.
void* alloc_aligned(size_t size, size_t alignment);

// Allocates `size` bytes at `alignment`. If `zero` is true, all usable bytes are zero.
void* alloc_plain(size_t size, size_t alignment, bool zero);

// Called when the last used block of the page was freed. Releases the page, unless it is current.
KEEL_NOINLINE void free_page_emptied(struct page* page);
KEEL_NOINLINE void free_slow(void* address, struct page* page);

// Secure flavour: the number of the calling thread, which messages about faults state; 0 if the
// thread has no heap. Plain flavour: 0.
KEEL_INLINE uint32_t thread_of_heap(void) {
    return KEEL_SECURE ? atomic_get(&thread_heap->thread_id) : 0;
}

KEEL_INLINE struct page* free_page_of(const void* address) {
    return KEEL_SECURE ? page_of_low(address) : page_of(address);
}

// Frees a block of a page of the calling thread's heap.
KEEL_INLINE void free_own(struct page* page, void* address) {
    uintptr_t mask;
    if (KEEL_UNLIKELY(!block_try_free(page, address, thread_heap->free_mark, &mask)))
        free_slow(address, page);
    else if (KEEL_UNLIKELY(page_push_masked(page, address, mask)))
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

// For the secure flavour: frees the block. Ends the process if the size or the alignment (1: any)
// is wrong. `exact`: the block has never been resized.
KEEL_NOINLINE void free_sized_slow(void* address, size_t size, size_t alignment, bool exact);

// Like free_block, for a caller that knows the size and the alignment that it requested.
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

// Like free_block, but first checks the address. If no process can have such an address, it is
// treated as the address of a foreign block. (free_block would crash.)
void free_any(void* address);

// Like realloc, for a live block and a size other than 0. If there is no memory, returns NULL, and
// the old block is unchanged.
void* reallocate(void* address, size_t size);

// Returns true if the block's usable size is at least `size`.
bool reallocate_in_place(void* address, size_t size);

// Returns the number of usable bytes at `address`; 0 for NULL and foreign addresses.
size_t block_usable_bytes(const void* address);

// The same for an address that the program passes. The secure flavour ends the process if the
// address is in Keel's memory, but is not the address of a live block.
size_t block_verified_bytes(const void* address);

// Returns true if `address` is in a page of blocks, even if the block is free, or in the first
// slice of a large block.
bool block_is_ours(const void* address);

// Returns the usable size of a block from malloc(size).
size_t good_size(size_t size);

// Does a quantum: one step of maintenance, which returns a bounded number of surplus slices to the
// system (slices/reserve.h). Does nothing if there is no surplus, if a keeper runs, or if the
// calling thread is a realtime thread.
void alloc_quantum(void);

// Does one step of work for a parked heap (a heap whose thread has ended), which the caller has
// taken from the pool. If the remote queue is not empty, the step drains it once. Otherwise it
// starts where the last step stopped, empties bins and releases pages, with at most 256 units of
// work: a block put back is 1 unit, a released page is 16. False: there is nothing to do now.
bool reclaim_step(struct heap* heap);

// Looks at the next few classes that have a current page. If a class was not used since the last
// look at it, and its current page has no used block, the heap gives up that page. At most 256
// units of work, as above.
//
// It looks at two classes, to keep pages that are needed again soon. While pages become empty and
// none begins (heap->emptied_streak), it looks at more, up to a quarter of the classes, because the
// thread may be about to sleep.
#define RECLAIM_LOOK_CLASSES 2u
void reclaim_look(struct heap* heap);

// Called before the heap obtains a fresh page, and after a page has become empty. If the heap has
// current pages of more than a few classes, it gives up those of unused classes (reclaim_look).
// Therefore a thread that has used many classes keeps the pages of only a few while it sleeps. Does
// nothing for a realtime heap, and nothing in the secure flavour: there free blocks are in
// quarantine, and if their page were given up, another class could reuse their memory.
#define RECLAIM_FEW_CLASSES 4u
KEEL_INLINE void reclaim_unused_classes(struct heap* heap, bool emptied) {
    if (KEEL_SECURE) return;
    heap->emptied_streak = emptied ? heap->emptied_streak + 1 : 0;
    if (heap->class_count > RECLAIM_FEW_CLASSES && !heap_is_realtime(heap)) reclaim_look(heap);
}

// Takes a heap from the watch list (heap/watch.h). If that heap is parked, calls reclaim_step for
// it. Slow paths call this if no keeper runs. False: no step was done.
bool reclaim_parked(void);

// Drains the remote queue of a heap that the caller holds, and releases those of its pages that
// have no used blocks. Linear in the queue's length and the number of pages.
void reclaim_heap(struct heap* heap);

// Drains this thread's heap and all parked heaps, and returns the memory of all free slices and
// cached mappings to the system. Unbounded.
void reclaim_all(void);

#endif

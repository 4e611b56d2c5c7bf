#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/guarded/sample.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"
#include "allocator/large/large.h"
#include "allocator/page/empty_block.h"
#include "allocator/space/window.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/thread.h"
#include <string.h>

void alloc_quantum(void) {
    if (!heap_is_realtime(thread_heap)) (void)reserve_step();
}

// For the secure flavour: fills the bin of the page's class, which is empty. Returns its first
// block.
static struct block* bin_take_some(struct heap* heap, struct page* page) {
    KEEL_ASSERT(KEEL_SECURE && bin_first(heap, page->size_class) == NULL);
    unsigned size_class = page->size_class;
    const struct page_use* use = page_use(page);
    struct block** end = bin_end(heap, size_class);
    unsigned count = 0;
    bool carves = true;
    if (page_can_give(page)) {
        carves = use->carved - use->used < REFILL_SHORT && !page_begins_system_page(page);
        count = page_take_oldest(page, end);
    } else if ((use->fresh & PAGE_ZERO) != 0) {
        heap->bin_zero[size_class] = 1;
    }
    if (carves && use->carved < page->capacity) {
        count += page_carve_into(page, end - count, BIN_BLOCKS - count);
        atomic_bump(&heap->counts[HEAP_CARVES], 1);
    }
    KEEL_ASSERT(count <= BIN_BLOCKS);
    bin_set_count(heap, size_class, count);
    return bin_first(heap, size_class);
}

// Takes blocks of the page: its free list, or newly carved blocks. If the list is short and carving
// takes no page fault, takes both, so that fewer refills are needed. Returns the first one; *rest:
// the others.
static struct block* page_take_some(struct heap* heap, unsigned size_class, struct page* page,
                                    struct block** rest) {
    KEEL_ASSERT(!KEEL_SECURE && page == heap->current[size_class]);
    struct page_use* use = page_use(page);
    if (!page_can_give(page)) {
        struct block* carved = page_carve(page, rest);
        if (carved != NULL) atomic_bump(&heap->counts[HEAP_CARVES], 1);
        heap->bin_zero[size_class] = use->fresh & PAGE_ZERO;
        return carved;
    }
    uint32_t length = use->carved - use->used;
    struct block* list = page_take_free(page);
    *rest = list->next;
    if (length >= REFILL_SHORT || use->carved == page->capacity || page_begins_system_page(page))
        return list;
    struct block* carved = page_carve(page, rest);
    struct block** end = rest; // the loop is short: one carve makes few blocks
    while (*end != NULL) end = &(*end)->next;
    *end = list;
    return carved;
}

struct block* alloc_carved(struct heap* heap, unsigned size_class, struct page* page) {
    KEEL_ASSERT(page == heap->current[size_class] && bin_first(heap, size_class) == NULL);
    const struct page_use* use = page_use(page);
    const uint32_t before = use->used;
    bool cold = (use->fresh & PAGE_COLD) != 0 && page_begins_system_page(page);
    if (!KEEL_SECURE || use->carved == page->capacity || cold ||
        !remote_queue_is_empty(&heap->remote_queue))
        return NULL;
    heap->bin_zero[size_class] = (use->fresh & PAGE_ZERO) != 0;
    bin_set_count(heap, size_class, page_carve_into(page, bin_end(heap, size_class), BIN_BLOCKS));
    atomic_bump(&heap->counts[HEAP_REFILLS], 1);
    atomic_bump(&heap->counts[HEAP_CARVES], 1);
    atomic_bump(&heap->given[size_class], use->used - before);
    refill_weigh(heap, page, use->used - before);
    return bin_pop(heap, size_class);
}

// Fills the empty bin with blocks of the page, and counts them as given. Takes the first one.
static struct block* page_give(struct heap* heap, unsigned size_class, struct page* page) {
    KEEL_ASSERT(page == heap->current[size_class] && bin_first(heap, size_class) == NULL);
    const struct page_use* use = page_use(page);
    uint32_t before = use->used;
    struct block* rest = NULL;
    heap->bin_zero[size_class] = 0;
    struct block* first =
        KEEL_SECURE ? bin_take_some(heap, page) : page_take_some(heap, size_class, page, &rest);
    KEEL_ASSERT(first == NULL || use->used > before);
    if (sample_is_on() && first != NULL) sample_cut(heap, page, &rest, use->used - before);
    atomic_bump(&heap->given[size_class], use->used - before);
    refill_weigh(heap, page, use->used - before);
    if (!KEEL_SECURE)
        heap->bin[size_class].first = rest;
    else if (first != NULL)
        bin_take_first(heap, size_class, first);
    return first;
}

// The keeper may be populating the last free memory. A unit takes 0.1 to 0.8 ms.
#define MAINTENANCE_WAITS 200u
#define MAINTENANCE_WAIT_US 50u
static void wait_for_maintenance(void) {
    static atomic_state never;
    for (unsigned waits = 0; waits < MAINTENANCE_WAITS && reserve_is_maintained(); waits++)
        os_wait(&never, 0, MAINTENANCE_WAIT_US);
}

// Called when there is no memory. Reclaims from all heaps, or only from this heap if it cannot use
// other memory.
static void make_room(struct heap* heap) {
    if (KEEL_SECURE) large_quarantine_end();
    if (heap->arena != NULL || heap->limit_bytes != 0) {
        reclaim_heap(heap);
        return;
    }
    if (!heap_is_realtime(heap)) wait_for_maintenance();
    reclaim_all();
}

// Refills from a fresh page. First sends the remote frees that this thread has gathered, because
// their owners may also need memory.
static struct block* refill_fresh(struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(heap->current[size_class] == NULL);
    bool from_slices;
    uint64_t begun = cycles_now();
    remote_batch_flush(heap);
    if (!policy_has_keeper() && !heap_is_realtime(heap)) (void)reclaim_parked();
    reclaim_unused_classes(heap, false);
    struct page* page = heap_fresh_page(heap, size_class, &from_slices);
    if (page == NULL) {
        make_room(heap);
        page = heap_fresh_page(heap, size_class, &from_slices);
        if (page == NULL) return NULL;
    }
    if (from_slices) reserve_note();
    struct block* block = page_give(heap, size_class, page);
    slow_path_note(&heap->slow_paths, SLOW_PATH_FRESH_PAGE, begun);
    return block;
}

static void drain(struct heap* heap) {
    uint64_t begun = cycles_now();
    if (heap_drain(heap)) alloc_quantum();
    slow_path_note(&heap->slow_paths, SLOW_PATH_DRAIN, begun);
}

// What maintenance found.
enum upkeep { UPKEEP_NONE, UPKEEP_WAITS, UPKEEP_DONE, UPKEEP_BEHIND };

// Without a keeper: a quantum, and a step for a parked heap. UPKEEP_WAITS: there is warm memory,
// which may become a surplus later.
static enum upkeep upkeep_without_keeper(void) {
    bool idle = watch_is_empty() && policy_is_at_rest();
    if (idle) return UPKEEP_NONE;
    bool worked = reclaim_parked();
    worked |= reserve_step();
    if (policy_has_surplus() || !watch_is_empty()) return UPKEEP_BEHIND;
    return worked ? UPKEEP_DONE : UPKEEP_WAITS;
}

// The weight until the next maintenance.
static uint32_t weight_after(enum upkeep found, uint32_t weight) {
    KEEL_ASSERT(found <= UPKEEP_BEHIND);
    if (found == UPKEEP_BEHIND) return MAINTENANCE_WEIGHT_BEHIND;
    if (found == UPKEEP_DONE || weight < MAINTENANCE_WEIGHT) return MAINTENANCE_WEIGHT;
    uint32_t most = found == UPKEEP_NONE ? MAINTENANCE_WEIGHT_IDLE : MAINTENANCE_WEIGHT_WAITS;
    return weight < most ? 2 * weight : most;
}

// Drains the queue; without a keeper also does a quantum, and a step for a parked heap.
static void maintain(struct heap* heap) {
    KEEL_ASSERT(heap_is_real(heap));
    enum upkeep found = UPKEEP_NONE;
    if (!policy_has_keeper() && !heap_is_realtime(heap)) found = upkeep_without_keeper();
    if (!remote_queue_is_empty(&heap->remote_queue)) {
        drain(heap);
        if (found < UPKEEP_DONE) found = UPKEEP_DONE;
        if (!remote_queue_is_empty(&heap->remote_queue)) found = UPKEEP_BEHIND;
    }
    heap->maintenance_weight = weight_after(found, heap->maintenance_weight);
    heap->maintenance_at = heap->refilled + heap->maintenance_weight;
}

// Fills the empty bin, and takes its first block. Examines at most two pages; the outline in
// alloc.h states the bound.
static struct block* refill(struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(heap_is_real(heap) && bin_first(heap, size_class) == NULL);
    if (maintenance_is_due(heap)) maintain(heap);
    atomic_bump(&heap->counts[HEAP_REFILLS], 1);
    struct page* page = heap->current[size_class];
    if (page != NULL && page_can_give(page)) return page_give(heap, size_class, page);
    if (!remote_queue_is_empty(&heap->remote_queue)) drain(heap);
    if (page != NULL) {
        struct block* block = page_give(heap, size_class, page);
        if (block != NULL) return block;
        heap_retire_current(heap, size_class);
    }
    count_work(WORK_PAGE_PROBES, 2);
    page = heap_next_page(heap, size_class);
    return page != NULL ? page_give(heap, size_class, page) : refill_fresh(heap, size_class);
}

static KEEL_NOINLINE void* alloc_class(unsigned size_class);

// For a destructor of thread-specific data that runs after Keel's own.
static KEEL_COLD void* alloc_after_end(unsigned size_class) {
    KEEL_ASSERT(thread_heap == &heap_gone);
    if (heap_borrow() == NULL) return NULL;
    void* block = alloc_class(size_class);
    heap_leave();
    return block;
}

static void* alloc_class(unsigned size_class) {
    struct heap* heap = thread_heap;
    struct block* block = bin_first(heap, size_class);
    if (KEEL_UNLIKELY(block == NULL)) {
        if (KEEL_UNLIKELY(heap == &heap_gone)) return alloc_after_end(size_class);
        if (KEEL_UNLIKELY(!heap_is_real(heap))) heap = heap_acquire();
        if (heap == NULL) return NULL;
        block = bin_first(heap, size_class); // an adopted heap may have blocks
        if (block == NULL) return refill(heap, size_class);
    }
    KEEL_ASSERT(page_of_block(block)->size_class == size_class);
    bin_take_first(heap, size_class, block);
    return block;
}

// --- Guarded sampling ----------------------------------------------------------------------------

static KEEL_COLD void* guarded_small(struct heap* heap, unsigned size_class, size_t size,
                                     size_t alignment) {
    KEEL_ASSERT(!KEEL_SECURE && size_class < CLASS_COUNT);
    struct page* page = sample_take(heap, size_class, size, alignment);
    if (page == NULL) return NULL;
    atomic_bump(&heap->given[size_class], 1);
    atomic_set_release(&page->owner, atomic_get(&page->owner) | (uintptr_t)heap);
    return page->start;
}

// A guarded block, all zero, if this allocation is chosen; else NULL.
static KEEL_COLD void* alloc_sampled(unsigned size_class, size_t size, size_t alignment) {
    struct heap* heap = thread_heap == &heap_none ? heap_acquire() : thread_heap;
    if (heap == NULL || !sample_is_due(heap, size_class)) return NULL;
    return guarded_small(heap, size_class, size, alignment);
}
KEEL_INLINE void* alloc_guarded(unsigned size_class, size_t size, size_t alignment) {
    return sample_is_on() ? alloc_sampled(size_class, size, alignment) : NULL;
}

// --- Large blocks --------------------------------------------------------------------------------

static struct large large_of(size_t size, size_t alignment, bool movable) {
    struct heap* heap = thread_heap;
    if (!heap_admits(heap, size)) return (struct large){NULL, true};
    if (heap->arena != NULL) return large_allocate_in(heap->arena, size, alignment);
    if (movable) return large_allocate_movable(size);
    return large_allocate(size, alignment, !heap_is_realtime(heap));
}

// Records the heap that the block was allocated from.
static void large_join(struct heap* heap, struct page* page) {
    KEEL_ASSERT(page_is_large(page) && page_heap(atomic_get(&page->owner)) == NULL);
    atomic_set_release(&page->owner, atomic_get(&page->owner) | (uintptr_t)heap);
    user_heap_count_large(heap, large_row(page->bytes));
}

// Frees of large blocks return surplus memory. So that a program that only allocates also returns
// it, one of this many large allocations does a quantum of maintenance.
#define LARGE_QUANTUM_DRAWS 4u

// A block on slices that the heap has kept. Start NULL: none.
static struct large large_kept(size_t size, size_t alignment) {
    struct heap* heap = thread_heap;
    struct large block = {NULL, false};
    size_t slices = (size + SLICE_BYTES - 1) / SLICE_BYTES;
    if (KEEL_SECURE || slices > HEAP_KEPT_SLICES || slices == 0 || alignment > SLICE_BYTES)
        return block;
    block.start = heap_is_real(heap) ? heap_take_run(heap, (unsigned)slices) : NULL;
    if (block.start == NULL) return block;
    large_begin(block.start, slices);
    large_join(heap, page_of(block.start));
    return block;
}

static KEEL_COLD struct large large_guarded(size_t size, size_t alignment) {
    struct large block = {NULL, true};
    struct heap* heap = thread_heap;
    if (!large_is_possible(size, alignment) || !limit_admits(size) || !sample_large(heap))
        return block;
    struct page* page = sample_take(heap, SAMPLE_LARGE, size, alignment);
    if (page == NULL) return block;
    heap->draws++;
    large_join(heap, page);
    block.start = page->start;
    return block;
}

static struct large alloc_large(size_t size, size_t alignment, bool movable) {
    block_guard_prepare();
    if (sample_is_on()) {
        struct large guarded = large_guarded(size, alignment);
        if (guarded.start != NULL) return guarded;
    }
    // A block that has grown needs room behind it.
    struct large kept = movable ? (struct large){NULL, false} : large_kept(size, alignment);
    if (kept.start != NULL) return kept; // not timed: slow_path.h
    if (KEEL_UNLIKELY(!large_is_possible(size, alignment))) return (struct large){NULL, true};
    if (KEEL_UNLIKELY(thread_heap == &heap_none)) (void)heap_acquire();
    uint64_t begun = slow_path_begin_large(thread_heap->draws);
    if (thread_heap->draws % LARGE_QUANTUM_DRAWS == 0) alloc_quantum();
    size_t bytes = size + LARGE_STATE_BYTES;
    struct large block = large_of(bytes, alignment, movable);
    if (block.start == NULL) {
        make_room(thread_heap);
        block = large_of(bytes, alignment, movable);
    }
    reserve_note();
    if (KEEL_SECURE && block.start != NULL) {
        page_of(block.start)->partition = (uint8_t)partition_now();
        large_seal(page_of(block.start), size);
    }
    struct heap* heap = thread_heap;
    if (heap_is_real(heap)) {
        heap->draws++;
        if (block.start != NULL) large_join(heap, page_of(block.start));
        slow_path_note_large(&heap->slow_paths, SLOW_PATH_LARGE_MALLOC, begun);
    } else if (block.start != NULL) {
        user_heap_count_large(NULL, large_row(page_of(block.start)->bytes));
    }
    return block;
}

void* alloc_slow(size_t size) {
    if (KEEL_UNLIKELY(size > REQUEST_CLASS_MAX)) return alloc_large(size, 1, false).start;
    unsigned size_class = request_class(size);
    void* block = alloc_guarded(size_class, size, 1);
    return block != NULL ? block : block_sealed(alloc_class(size_class), size_class, size);
}

void* alloc_movable(size_t size) {
    return size <= REQUEST_CLASS_MAX ? alloc_slow(size) : alloc_large(size, 1, true).start;
}

void* alloc_zeroed(size_t size) {
    if (KEEL_UNLIKELY(size > REQUEST_CLASS_MAX)) {
        struct large block = alloc_large(size, 1, false);
        if (block.start != NULL && !block.zero) large_zero(page_of(block.start));
        return block.start;
    }
    unsigned size_class = request_class(size);
    void* guarded = alloc_guarded(size_class, size, 1);
    if (guarded != NULL) return guarded;
    struct block* block = block_sealed(alloc_class(size_class), size_class, size);
    return KEEL_LIKELY(block != NULL) ? bin_zeroed(thread_heap, size_class, block, size) : NULL;
}

void* alloc_aligned(size_t size, size_t alignment) {
    KEEL_ASSERT(is_power_of_two(alignment));
    unsigned size_class = request_class_aligned(size, alignment);
    if (KEEL_UNLIKELY(size_class == CLASS_COUNT)) return alloc_large(size, alignment, false).start;
    void* guarded = alloc_guarded(size_class, size, alignment);
    return guarded != NULL ? guarded : block_sealed(alloc_class(size_class), size_class, size);
}

void* alloc_plain(size_t size, size_t alignment, bool zero) {
    KEEL_ASSERT(alignment == 0 || is_power_of_two(alignment));
    if (alignment <= 1) return zero ? alloc_zeroed(size) : alloc_slow(size);
    void* block = alloc_aligned(size, alignment);
    if (block == NULL || !zero) return block;
    struct page* page = page_around(block);
    if (page_is_guarded(page)) return block;
    if (!page_is_large(page))
        return memset(block, 0, page_usable_bytes(page) - block_tail(page, block));
    large_zero(page);
    return block;
}

size_t good_size(size_t size) {
    if (EMPTY_BLOCKS && size == 0) return 0;
    if (size <= REQUEST_CLASS_MAX) return usable_of_request(request_class(size), size);
    if (size > KEEL_SIZE_MAX) return size;
    return large_good_size(size);
}

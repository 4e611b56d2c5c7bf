// Memory of ended threads: threads that need memory do the maintenance of parked heaps.
#include "allocator/alloc/alloc.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/process.h"

// A heap's current pages and bins are kept for this time: the next thread may soon take the heap.
#define RECLAIM_AGE_MS 100u
#define RECLAIM_UNITS 256u     // of work in one step: a block put back counts as one
#define RECLAIM_PAGE_UNITS 16u // and a page released as so many

// Empties the bin of this class, as far as `units` allow, and releases the current page if no block
// of it is used. Returns the units left; 0: there may be more to do.
static unsigned release_current(struct heap* heap, unsigned size_class, unsigned units) {
    KEEL_ASSERT(size_class < CLASS_COUNT && units > 0);
    struct page* page = heap->current[size_class];
    if (page == NULL) return units;
    units -= heap_flush_bin(heap, size_class, units);
    if (units < RECLAIM_PAGE_UNITS) return 0;
    if (page_use(page)->used > 0) return units;
    heap->current[size_class] = NULL;
    page_set_list(page, PAGE_UNLISTED);
    (void)heap_page_emptied(heap, page);
    return units - RECLAIM_PAGE_UNITS;
}

// Releases the first pages of the queue that the keeper has emptied (heap/relief.h): as a rule that
// is all of them, or the queue has live blocks too. Result as above.
static unsigned release_emptied(struct heap* heap, unsigned size_class, unsigned units) {
    KEEL_ASSERT(units > 0);
    for (;;) {
        struct page* page = heap->queue[size_class].first;
        if (page == NULL) return units;
        // The acquire pairs with the end of the keeper's claim.
        if (atomic_get_acquire(&page_use(page)->list) != PAGE_QUEUED) return units;
        if (page_use(page)->used > 0) return units;
        if (units <= RECLAIM_PAGE_UNITS) return 0;
        (void)heap_page_emptied(heap, page);
        units -= RECLAIM_PAGE_UNITS;
    }
}

static unsigned release_class(struct heap* heap, unsigned size_class, unsigned units) {
    units = release_current(heap, size_class, units);
    return units > 0 ? release_emptied(heap, size_class, units) : 0;
}

static void release_some_currents(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&heap->reclaim_next) <= CLASS_COUNT);
    unsigned units = RECLAIM_UNITS;
    unsigned next = atomic_get(&heap->reclaim_next);
    while (next < CLASS_COUNT && (units = release_class(heap, next, units)) > 0) next++;
    atomic_set(&heap->reclaim_next, next);
    count_work(WORK_RECLAIM, RECLAIM_UNITS - units);
    if (next == CLASS_COUNT) heap_release_kept(heap);
}

bool reclaim_step(struct heap* heap) {
    KEEL_ASSERT(heap_is_real(heap));
    if (!remote_queue_is_empty(&heap->remote_queue)) {
        (void)heap_drain(heap);
        atomic_set(&heap->reclaim_next, 0); // blocks of current pages may have come back
        return true;
    }
    if (atomic_get(&heap->reclaim_next) == CLASS_COUNT) return false;
    if (os_clock_ms() - heap->parked_ms < RECLAIM_AGE_MS) return false;
    release_some_currents(heap);
    return true;
}

bool reclaim_parked(void) {
    if (watch_is_empty()) return false;
    struct heap* heap = watch_take(true);
    if (heap == NULL) return false;
    bool worked = false;
    if (heap_unpark(heap)) {
        worked = reclaim_step(heap);
        heap_park(heap);
    }
    watch_finish(heap, heap_is_parked(heap) && heap_can_be_reclaimed(heap));
    return worked;
}

// Changes with each malloc and free of this class. The same value again by chance does no harm.
static uint32_t mark_of(const struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(heap->current[size_class] != NULL);
    uintptr_t bin = (uintptr_t)bin_first(heap, size_class);
    uintptr_t list = (uintptr_t)page_use(heap->current[size_class])->local_free;
    return (uint32_t)(bin >> 3) * 31 + (uint32_t)(list >> 3);
}

// The class after `last` in heap->classes, which is not empty; the first one follows the last.
static unsigned class_after(const struct heap* heap, unsigned last) {
    KEEL_ASSERT(heap->class_count > 0 && last < HEAP_CLASS_WORDS * 64);
    unsigned word = last / 64;
    uint64_t bits = heap->classes[word] & (~UINT64_C(1) << (last % 64));
    while (bits == 0) {
        word = word + 1 < HEAP_CLASS_WORDS ? word + 1 : 0;
        bits = heap->classes[word];
    }
    return word * 64 + bit_lowest(bits);
}

static unsigned look_at_class(struct heap* heap, unsigned size_class, unsigned units) {
    KEEL_ASSERT((heap->classes[size_class / 64] >> (size_class % 64) & 1) != 0);
    struct page* page = heap->current[size_class];
    if (page == NULL) {
        heap->classes[size_class / 64] &= ~(UINT64_C(1) << (size_class % 64));
        KEEL_ASSERT(heap->class_count > 0);
        heap->class_count--;
        return units;
    }
    uint32_t mark = mark_of(heap, size_class);
    bool used = heap->class_marks[size_class] != mark;
    heap->class_marks[size_class] = mark;
    // With more used blocks they are probably not all in the bin.
    if (used || units == 0 || page_use(page)->used > units) return units;
    return release_current(heap, size_class, units);
}

void reclaim_look(struct heap* heap) {
    unsigned units = RECLAIM_UNITS;
    unsigned classes = RECLAIM_LOOK_CLASSES * (1 + heap->emptied_streak);
    if (classes > heap->class_count / 4 + 1) classes = heap->class_count / 4 + 1;
    for (; classes > 0 && heap->class_count > 0; classes--) {
        heap->last_look = class_after(heap, heap->last_look);
        units = look_at_class(heap, heap->last_look, units);
    }
    count_work(WORK_RECLAIM, RECLAIM_UNITS - units);
}

void reclaim_heap(struct heap* heap) {
    KEEL_ASSERT(((uintptr_t)heap & HEAP_USER) != 0 || heap_is_real(heap));
    // Drains the queue. The bound ends the loop even if a sender keeps adding batches.
    for (unsigned rounds = 0; rounds < 1u << 20 && !remote_queue_is_empty(&heap->remote_queue);
         rounds++)
        (void)heap_drain(heap);
    for (unsigned c = 0; c < CLASS_COUNT; c++) (void)release_class(heap, c, UINT32_MAX);
    atomic_set(&heap->reclaim_next, CLASS_COUNT);
    heap_release_kept(heap);
    KEEL_ASSERT(heap_check(heap));
}

void reclaim_all(void) {
    (void)guarded_close_freed();
    struct heap* heap = thread_heap;
    if (heap_is_real(heap)) {
        remote_batch_flush(heap);
        reclaim_heap(heap);
    }
    // Each parked heap once: heap_park appends it to the list.
    unsigned count = 0;
    for (struct heap* each = heap_first(); each != NULL; each = each->next_all) count++;
    for (; count > 0; count--) {
        heap = heap_take_parked();
        if (heap == NULL) break;
        reclaim_heap(heap);
        heap_park(heap);
    }
    reserve_discard_all();
}

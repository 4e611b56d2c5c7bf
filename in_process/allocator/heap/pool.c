#include "allocator/heap/pool.h"
#include "allocator/heap/bin.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"

#define HEAPS_AT_ONCE (KEEL_SECURE ? 4u : 16u)
#define HEAP_STRIDE ((sizeof(struct heap) + HEAP_SPACING - 1) & ~(HEAP_SPACING - 1))

#define HEAP_WITHOUT_BLOCKS                                                                        \
    {                                                                                              \
        .bin = { {.first = KEEL_SECURE ? BIN_NO_BLOCK : NULL} }                                    \
    }

// Not at an odd multiple of 64: those addresses are for user heaps.
KEEL_ALIGNED(HEAP_SPACING) const struct heap heap_none = HEAP_WITHOUT_BLOCKS;
KEEL_ALIGNED(HEAP_SPACING) const struct heap heap_gone = HEAP_WITHOUT_BLOCKS;
KEEL_TLS struct heap* thread_heap = (struct heap*)&heap_none;

// Not in the secure flavour, whose heaps lie between guards, and where tests count mappings.
#ifndef KEEL_FIRST_HEAPS
#define KEEL_FIRST_HEAPS !KEEL_SECURE
#endif
static KEEL_ALIGNED(HEAP_SPACING) struct heap first_heap;

static struct {
    struct os_lock lock;
    struct heap* parked_first; // parked for the longest time
    struct heap* parked_last;
    struct heap* unused; // the rest of the mapping that new heaps come from
    unsigned unused_count;
    atomic_word all; // newest heap; linked by next_all
} pool = {.unused = &first_heap, .unused_count = KEEL_FIRST_HEAPS};

struct heap* heap_first(void) {
    return (struct heap*)atomic_get_acquire(&pool.all);
}

static void parked_append(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&pool.lock.state) != 0 && !heap_is_parked(heap));
    KEEL_ASSERT(((uintptr_t)heap & HEAP_USER) == 0);
    heap->next_parked = NULL;
    heap->prev_parked = pool.parked_last;
    if (pool.parked_last != NULL)
        pool.parked_last->next_parked = heap;
    else
        pool.parked_first = heap;
    pool.parked_last = heap;
    atomic_set(&heap->parked, 1);
}

static void parked_remove(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&pool.lock.state) != 0 && heap_is_parked(heap));
    KEEL_ASSERT(heap->prev_parked != NULL || pool.parked_first == heap);
    KEEL_ASSERT(heap->next_parked != NULL || pool.parked_last == heap);
    if (heap->prev_parked != NULL)
        heap->prev_parked->next_parked = heap->next_parked;
    else
        pool.parked_first = heap->next_parked;
    if (heap->next_parked != NULL)
        heap->next_parked->prev_parked = heap->prev_parked;
    else
        pool.parked_last = heap->prev_parked;
    atomic_set(&heap->parked, 0);
}

static struct heap* parked_remove_first(void) {
    struct heap* heap = pool.parked_first;
    if (heap != NULL) parked_remove(heap);
    return heap;
}

static struct heap* unused_remove(void) {
    KEEL_ASSERT(atomic_get(&pool.lock.state) != 0);
    if (pool.unused_count == 0) return NULL;
    pool.unused_count--;
    struct heap* heap = pool.unused;
    pool.unused = (struct heap*)((char*)heap + HEAP_STRIDE);
    KEEL_ASSERT(((uintptr_t)heap & HEAP_USER) == 0 && heap->next_all == NULL);
    heap_prepare_bins(heap);
    heap->next_all = (struct heap*)atomic_get(&pool.all);
    atomic_set_release(&pool.all, (uintptr_t)heap);
    return heap;
}

// Makes a new heap. The mapping is made without the lock. If another thread has added a mapping in
// this time, that mapping is used.
static struct heap* heap_make(void) {
    os_lock_acquire(&pool.lock);
    struct heap* heap = unused_remove();
    os_lock_release(&pool.lock);
    if (heap != NULL) return heap;

    size_t bytes = round_up(HEAPS_AT_ONCE * HEAP_STRIDE, os_page_bytes());
    void* mapping = os_map_metadata(bytes);
    os_lock_acquire(&pool.lock);
    if (pool.unused_count == 0 && mapping != NULL) {
        pool.unused = mapping;
        pool.unused_count = HEAPS_AT_ONCE;
        mapping = NULL;
    }
    heap = unused_remove();
    os_lock_release(&pool.lock);
    if (mapping != NULL) os_unmap_metadata(mapping, bytes);
    return heap;
}

static void set_thread(struct heap* heap, uint32_t thread) {
    KEEL_ASSERT(heap_is_real(heap));
    heap->free_mark = state_mark(thread);
    atomic_set(&heap->thread_id, thread);
}

// Takes a parked heap or makes one, for the calling thread.
static struct heap* heap_enter(void) {
    KEEL_ASSERT(!heap_is_real(thread_heap));
    os_lock_acquire(&pool.lock);
    struct heap* heap = parked_remove_first();
    os_lock_release(&pool.lock);
    count_event(heap != NULL ? EVENT_HEAP_ADOPTED : EVENT_HEAP_CREATED, 1);
    if (heap == NULL) heap = heap_make();
    if (heap == NULL) return NULL;
    KEEL_ASSERT(!heap_is_parked(heap) && atomic_get(&heap->thread_id) == 0);
    thread_heap = heap;
    set_thread(heap, os_thread_id());
    return heap;
}

struct heap* heap_acquire(void) {
    if (heap_is_real(thread_heap)) return thread_heap;
    if (thread_heap == &heap_gone) return NULL;
    struct heap* heap = heap_enter();
    if (heap != NULL) os_thread_exit_arm(heap); // may call malloc, which finds the heap
    return heap;
}

struct heap* heap_borrow(void) {
    return heap_enter();
}

void heap_leave(void) {
    struct heap* heap = thread_heap;
    if (!heap_is_real(heap)) return;
    KEEL_ASSERT(heap_check(heap));
    KEEL_ASSERT(!heap_is_parked(heap) && ((uintptr_t)heap & HEAP_USER) == 0);
    thread_heap = (struct heap*)&heap_gone;
    remote_batch_flush(heap);
    heap_release_kept(heap);
    if (heap_is_realtime(heap)) {
        atomic_set(&heap->spare_wanted, 0);
        (void)heap_fill_spare(heap);
    }
    atomic_set(&heap->reclaim_next, 0);
    heap->parked_ms = os_clock_ms();
    atomic_set(&heap->thread_id, 0);
    heap_park(heap);
    heap_watch(heap);
    count_event(EVENT_HEAP_PARKED, 1);
}

struct heap* heap_take_parked(void) {
    if (!os_lock_try(&pool.lock)) return NULL;
    struct heap* heap = parked_remove_first();
    os_lock_release(&pool.lock);
    return heap;
}

bool heap_unpark(struct heap* heap) {
    if (!heap_is_parked(heap) || !os_lock_try(&pool.lock)) return false;
    bool parked = heap_is_parked(heap);
    if (parked) parked_remove(heap);
    os_lock_release(&pool.lock);
    return parked;
}

void heap_park(struct heap* heap) {
    KEEL_ASSERT(heap_is_real(heap) && atomic_get(&heap->thread_id) == 0);
    os_lock_acquire(&pool.lock);
    parked_append(heap);
    os_lock_release(&pool.lock);
}

void heap_pool_before_fork(void) {
    os_lock_acquire(&pool.lock);
}
void heap_pool_after_fork(void) {
    os_lock_release(&pool.lock);
}

void heap_repair_in_child(struct heap* own) {
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all)
        remote_batch_repair(heap);
    remote_batch_repair_heapless();
    if (own != NULL) {
        set_thread(own, os_thread_id());
        heap_watch(own);
    }
    os_lock_acquire(&pool.lock);
    for (struct heap* heap = pool.parked_first; heap != NULL; heap = heap->next_parked)
        heap_watch(heap); // the list of the parent is forgotten
    os_lock_release(&pool.lock);
}

bool heap_pool_check(void) {
    if (!KEEL_CHECKS) return true;
    const struct heap* before = NULL;
    size_t heaps = 0;
    size_t parked = 0;
    for (const struct heap* heap = pool.parked_first; heap != NULL; heap = heap->next_parked) {
        if (heap->prev_parked != before || !heap_is_parked(heap)) return false;
        if (atomic_get(&heap->thread_id) != 0) return false;
        before = heap;
        parked++;
    }
    if (pool.parked_last != before) return false;
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) {
        if (((uintptr_t)heap & HEAP_USER) != 0) return false;
        if (!heap_check(heap) || !remote_queue_check(&heap->remote_queue)) return false;
        parked -= heap_is_parked(heap);
        heaps++;
    }
    return parked == 0 && watch_check(heaps);
}

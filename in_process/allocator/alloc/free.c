#include "allocator/alloc/alloc.h"
#include "allocator/alloc/shared.h"
#include "allocator/arena/region.h"
#include "allocator/arena/stock.h"
#include "allocator/heap/batch.h"
#include "allocator/page/large.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/panic.h"

// The page has no block in use any more.
static void let_go(struct heap* heap, struct page* page) {
    uint64_t begun = cycles_now();
    if (heap_page_emptied(heap, page)) alloc_quantum();
    tail_note(&heap->tail, TAIL_PAGE_EMPTIED, begun);
}

void free_look(struct page* page) {
    struct heap* heap = page_heap(atomic_get(&page->owner));
    enum page_list list = page_list(page);
    if (list == PAGE_FULL)
        heap_page_not_full(heap, page, 1);
    else if (list != PAGE_CURRENT)
        let_go(heap, page);
}

// Nothing of ours begins here. In address space that we reserved, that is a fault; elsewhere
// another allocator's block has strayed to us (or one from before us), and leaking it is the only
// thing that harms nobody.
static void free_unknown(void* address) {
    if (address == NULL) return;
    if (arena_owns(address)) panic(FAULT_FREE_NOT_ALLOCATED, address);
    count_event(EVENT_FOREIGN_FREE, 1);
    if (option_get(OPTION_FOREIGN_FREE) != 0) panic(FAULT_FREE_NOT_ALLOCATED, address);
    complain(FAULT_FREE_FOREIGN, address);
}

static void free_local(struct page* page, void* address) {
    if (!page_begins_block(page, address)) panic(FAULT_FREE_MISALIGNED, address);
    KEEL_REQUIRE(page_use(page)->until_look > 0, address);
    if (page_push(page, address)) free_look(page);
}

// Where blocks of an ended thread may have been sent, nobody takes them home: without a keeper, who
// frees them does.
static void free_into_batch(struct heap* heap, struct page* page, void* address) {
    uint64_t begun = cycles_now();
    if (!batch_add(heap, page, address)) return;
    if (!stock_is_kept() && !heap_is_realtime(heap)) (void)reclaim_parked();
    tail_note(&heap->tail, TAIL_REMOTE_SENT, begun);
}

// A thread's first act may be a free: then it gets a heap too, for the batches. After its end it
// has none any more.
static void free_remote(struct page* page, void* address) {
    struct heap* heap = thread_heap;
    if (heap == &heap_none) heap = heap_acquire();
    if (heap == NULL || heap == &heap_gone)
        batch_send_single(page, address);
    else if (page_heap(atomic_get(&page->owner)) == heap)
        free_local(page, address);
    else
        free_into_batch(heap, page, address);
}

static void free_large(struct page* page) {
    uint64_t begun = cycles_now();
    size_t slices = page->bytes / SLICE_BYTES;
    large_release(page);
    if (slices > STOCK_LARGE_SLICES && !heap_is_realtime(thread_heap))
        stock_step_large(slices);
    else
        alloc_quantum();
    if (heap_is_real(thread_heap)) tail_note(&thread_heap->tail, TAIL_LARGE_FREE, begun);
}

// Of a first-class heap: under its lock, never through a batch, so that nobody holds a block when it is destroyed.
static void free_shared(struct page* page, void* address) {
    switch (shared_free(page, address)) {
    case SHARED_FREED:
        break;
    case SHARED_PAGE_ENDED:
        alloc_quantum();
        break;
    case SHARED_LARGE:
        free_large(page);
        break;
    case SHARED_MOVED:
        free_slow(address, page_of(address));
        break;
    }
}

void free_slow(void* address, struct page* page) {
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_INTERIOR) != 0) {
        page -= page->distance;
        owner = atomic_get(&page->owner);
    }
    if (owner == 0) {
        free_unknown(address);
    } else if ((owner & HEAP_SHARED) != 0) {
        free_shared(page, address);
    } else if ((owner & (PAGE_LARGE | PAGE_JUMBO)) != 0) {
        if (address != page->start) panic(FAULT_FREE_MISALIGNED, address);
        free_large(page);
    } else if (page_heap(owner) == thread_heap) {
        free_local(page, address);
    } else {
        free_remote(page, address);
    }
}

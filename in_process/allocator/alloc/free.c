#include "allocator/alloc/alloc.h"
#include "allocator/arena/stock.h"
#include "allocator/arena/window.h"
#include "allocator/heap/batch.h"
#include "allocator/page/large.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/panic.h"

void free_emptied(struct page* page) {
    if (heap_page_emptied(page_heap(atomic_get(&page->owner)), page)) stock_step();
}

// Nothing of ours begins here. In address space that we reserved, that is a fault; elsewhere
// another allocator's block has strayed to us (or one from before us), and leaking it is the only
// thing that harms nobody.
static void free_unknown(void* address) {
    if (address == NULL) return;
    if (window_owns(address)) panic(FAULT_FREE_NOT_ALLOCATED, address);
    count_event(EVENT_FOREIGN_FREE, 1);
    if (options.abort_on_foreign_free) panic(FAULT_FREE_NOT_ALLOCATED, address);
}

static void free_local(struct heap* heap, struct page* page, uintptr_t owner, void* address) {
    if (!page_begins_block(page, address)) panic(FAULT_FREE_MISALIGNED, address);
    KEEL_REQUIRE(page->used > 0, address);
    bool empty = page_push(page, address);
    if (!empty && (owner & PAGE_FULL) != 0) heap_page_not_full(heap, page);
    if (empty && heap_page_emptied(heap, page)) stock_step();
}

// A thread's first act may be a free: then it gets a heap too, for the batches. After its end it
// has none any more.
static void free_remote(struct page* page, void* address) {
    struct heap* heap = thread_heap;
    if (heap == &heap_none) heap = heap_acquire();
    if (heap == NULL || heap == &heap_gone)
        batch_send_single(page, address);
    else if (page_heap(atomic_get(&page->owner)) == heap)
        free_local(heap, page, atomic_get(&page->owner), address);
    else
        batch_add(heap, page, address);
}

void free_slow(void* address, struct page* page) {
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_INTERIOR) != 0) {
        page -= page->distance;
        owner = atomic_get(&page->owner);
    }
    if (owner == 0) {
        free_unknown(address);
    } else if ((owner & (PAGE_LARGE | PAGE_JUMBO)) != 0) {
        if (address != page->start) panic(FAULT_FREE_MISALIGNED, address);
        size_t slices = page->bytes / SLICE_BYTES;
        large_release(page);
        if (slices > STOCK_LARGE_SLICES)
            stock_step_large(slices);
        else
            stock_step();
    } else if (page_heap(owner) == thread_heap) {
        free_local(thread_heap, page, owner, address);
    } else {
        free_remote(page, address);
    }
}

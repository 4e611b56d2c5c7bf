// Memory of ended threads: threads that need memory do the maintenance of parked heaps.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/slices/reserve.h"
#include "base/panic.h"

#define FLUSH_LINKS_MAX 64u

// Releases the current pages without used blocks, except those whose bin has more than links_max
// blocks.
static void release_currents(struct heap* heap, unsigned links_max) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        struct page* page = heap->current[c];
        if (page == NULL || !heap_flush_bin(heap, c, links_max)) continue;
        if (page_use(page)->used > 0) continue;
        heap->current[c] = NULL;
        page_set_list(page, PAGE_UNLISTED);
        (void)heap_page_emptied(heap, page);
    }
}

bool reclaim_parked(void) {
    struct heap* heap = heap_take_parked();
    if (heap == NULL) return false;
    bool has_batches = !remote_queue_is_empty(&heap->remote_queue);
    if (has_batches) (void)heap_drain(heap);
    if (has_batches || heap->freshly_parked) {
        heap->freshly_parked = !remote_queue_is_empty(&heap->remote_queue);
        release_currents(heap, FLUSH_LINKS_MAX);
        heap_release_empty(heap);
    }
    heap_park(heap);
    return has_batches;
}

void reclaim_heap(struct heap* heap) {
    // Drains the queue. The bound ends the loop even if a sender keeps adding batches.
    for (unsigned rounds = 0; rounds < 1u << 20 && !remote_queue_is_empty(&heap->remote_queue);
         rounds++)
        (void)heap_drain(heap);
    release_currents(heap, UINT32_MAX);
    heap_release_empty(heap);
    KEEL_ASSERT(heap_check(heap));
}

void reclaim_all(void) {
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

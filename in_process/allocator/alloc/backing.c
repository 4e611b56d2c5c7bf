#include "allocator/alloc/backing.h"
#include "allocator/alloc/alloc.h"
#include "allocator/alloc/first_class.h"
#include "allocator/heap/batch.h"
#include "allocator/heap/relief.h"
#include "os/thread.h"

#define WAITS_MAX 1000u // for one that is just sending; in a forked child it may be gone
#define WAIT_US 100u

// Until nothing is left. The heap's thread is the inbox's consumer.
static void take_all_home(struct heap* heap) {
    static atomic_state nobody_wakes;
    unsigned waits = 0;
    while (inbox_has_mail(&heap->inbox) && waits < WAITS_MAX) {
        uint64_t before = atomic_get(&heap->counts[HEAP_BATCH_TAKEN]);
        (void)heap_drain_entered(heap);
        if (atomic_get(&heap->counts[HEAP_BATCH_TAKEN]) != before) continue;
        os_wait(&nobody_wakes, 0, WAIT_US);
        waits++;
    }
}

// Becomes the consumer of the inbox, so that the keeper ends no page during the visit, and takes all home. False: the
// thread is that already, by a visit that this one is inside of.
static bool settle(struct heap* heap) {
    if (first_class_diverts())
        batch_flush(thread_heap); // what the thread itself has freed, with another default
    relief_pause();
    bool entered = inbox_enter(&heap->inbox);
    relief_resume();
    if (entered) take_all_home(heap);
    return entered;
}

static bool visit_window(struct heap* heap, const struct page* pages, bool blocks,
                         area_visitor* visit, void* context) {
    for (size_t i = 0; i < WINDOW_SLICES; i++) {
        uintptr_t owner = atomic_get_acquire(&pages[i].owner);
        if (page_heap(owner) != heap || (owner & PAGE_INTERIOR) != 0) continue;
        if (!area_visit(heap, &pages[i], blocks, visit, context)) return false;
    }
    return true;
}

bool backing_visit(bool blocks, area_visitor* visit, void* context) {
    struct heap* heap = first_class_own();
    if (heap == NULL) return true;
    bool entered = settle(heap);
    bool more = true;
    for (size_t i = 0; more && i < WINDOW_COUNT; i++) {
        const struct page* pages = page_map_window(i);
        if (pages != NULL) more = visit_window(heap, pages, blocks, visit, context);
    }
    if (entered) inbox_leave(&heap->inbox);
    alloc_quantum();
    return more;
}

bool backing_owns(const void* address) {
    struct heap* heap = first_class_own();
    return heap != NULL && page_heap(atomic_get(&page_around(address)->owner)) == heap;
}

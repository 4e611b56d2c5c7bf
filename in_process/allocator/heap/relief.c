#include "allocator/heap/relief.h"
#include "allocator/arena/run.h"
#include "base/counters.h"
#include "os/lock.h"

#define GATHER_PLACES 2048u

static struct {
    struct os_lock lock;
    struct batch gather[GATHER_PLACES]; // by page; empty between calls
} relief;

// All blocks of the page are in the list, and the owner has none of its lists lead to it.
static bool wholly_home(struct heap* heap, const struct batch* place) {
    return place->list.count == place->page->capacity &&
           atomic_get(&place->page->owner) == (uintptr_t)heap &&
           page_list(place->page) == PAGE_FULL;
}

static void let_go(struct page* page) {
    char* start = page->start;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    page_end(page);
    run_release(start, slices);
    count_event(EVENT_RELIEVED_PAGES, 1);
}

// Blocks of 8 bytes have no room for a count: they travel one by one.
static void singles_back(struct mail* mail, const struct batch* place) {
    struct block* block = place->list.head;
    for (unsigned i = place->list.count; i > 0; i--) {
        struct block* next = i > 1 ? block->next : NULL;
        mail_add(mail, (struct batch_list){block, block, 1}, place->page->block_bytes);
        block = next;
    }
}

// Empties a place: the page is let go, or its blocks become mail again.
static unsigned place_clear(struct heap* heap, struct batch* place, struct mail* back) {
    struct page* page = place->page;
    if (page == NULL) return 0;
    unsigned released = wholly_home(heap, place);
    if (released) {
        let_go(page);
        atomic_bump(&heap->relieved_pages, 1);
    } else if (page->block_bytes < 16) {
        singles_back(back, place);
    } else {
        mail_add(back, place->list, page->block_bytes);
    }
    place->page = NULL;
    return released;
}

static unsigned gather(struct heap* heap, struct batch_list batch, struct mail* back) {
    struct page* page = page_of_block(batch.head);
    struct batch* place = &relief.gather[((uintptr_t)page / sizeof(struct page)) % GATHER_PLACES];
    if (place->page == page) {
        batch.tail->next = place->list.head;
        place->list.head = batch.head;
        place->list.count += batch.count;
        return 0;
    }
    unsigned released = place_clear(heap, place, back);
    *place = (struct batch){page, batch};
    return released;
}

bool heap_can_be_relieved(struct heap* heap) {
    uintptr_t seen = heap->mail_seen;
    return inbox_has_mail(&heap->inbox) && (seen == 0 || atomic_get(&heap->inbox.head) != seen);
}

bool heap_relieve(struct heap* heap) {
    struct mail back = {0, 0};
    struct batch_list batch;
    unsigned released = 0;
    unsigned taken = 0;
    heap->mail_seen = 0;
    if (!os_lock_try(&relief.lock)) return false;
    if (inbox_enter(&heap->inbox)) {
        while (taken < RELIEF_BATCHES_MAX && inbox_take(&heap->inbox, &batch)) {
            released += gather(heap, batch, &back);
            taken++;
        }
        bool all = atomic_get(&heap->inbox.pending) == 0;
        inbox_leave(&heap->inbox);
        for (unsigned i = 0; taken > 0 && i < GATHER_PLACES; i++) {
            released += place_clear(heap, &relief.gather[i], &back);
        }
        // Mail that came while this was sorted lies below what is put back, and has not been seen.
        bool alone = back.last != 0 && inbox_push_mail(&heap->inbox, back);
        if (all && alone && released == 0) heap->mail_seen = back.first;
    }
    os_lock_release(&relief.lock);
    return released > 0 || taken == RELIEF_BATCHES_MAX;
}

void relief_pause(void) {
    os_lock_acquire(&relief.lock);
}
void relief_resume(void) {
    os_lock_release(&relief.lock);
}

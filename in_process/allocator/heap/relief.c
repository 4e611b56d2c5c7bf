#include "allocator/heap/relief.h"
#include "allocator/space/run.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/thread.h"

// Of a page that goes back to the system: one call, 11 to 14 µs for a resident page of 256 KiB. A
// fork waits for one step, which should take less than 50 µs.
#define EMPTY_UNITS (RELIEF_STEP_MAX / 2)

static struct {
    struct os_lock lock;  // held during a step
    atomic_state waiting; // threads that wait for the lock: no further step meanwhile
} relief;

// All blocks of the page are kept, and none of the owner's lists leads to the page. The acquire
// pairs with the release in heap_retire_current: the owner's last writes to the page come before
// its end.
static bool is_complete(const struct heap* heap, const struct page* page) {
    return page_remote(page)->kept_count == page->capacity &&
           atomic_get_acquire(&page->owner) == ((uintptr_t)heap | PAGE_FULL);
}

static void release_page(struct page* page) {
    page_release(page);
    count_event(EVENT_RELIEVED_PAGES, 1);
}

// The owner may be writing it. An old value is too large: then the page is left alone.
static KEEL_UNRACED uint32_t used_now(const struct page* page) {
    return page_use(page)->used;
}

// Makes a claimed page one without carved blocks.
static KEEL_UNRACED_UPDATE void page_reset(struct page* page) {
    KEEL_ASSERT(page_list(page) == PAGE_CLAIMED);
    struct page_use* use = page_use(page);
    bool discarded = os_discard(page->start, page->bytes);
    page_unlink_all(page);
    page_end_trust(page);
    use->used = 0;
    page_uncarve(page, discarded ? PAGE_ZERO | PAGE_COLD : 0);
}

// Empties a queued page if all of its used blocks are kept. The owner writes `used` after all else,
// so a thread that sees its last value, and is ordered after it, sees the other fields too.
static bool empty_queued(struct remote_queue* queue, struct page* page) {
    KEEL_ASSERT(page_remote(page)->kept_count > 0);
    uint32_t count = page_remote(page)->kept_count;
    if (page_list(page) != PAGE_QUEUED || used_now(page) != count) return false;
    if (!page_leave_queued(page, PAGE_CLAIMED)) return false;
    bool alone = used_now(page) == count && os_order_threads();
    if (alone) {
        (void)remote_queue_take_kept(queue, page);
        page_reset(page);
        count_event(EVENT_EMPTIED_PAGES, 1);
    }
    atomic_set_release(&page_use(page)->list, PAGE_QUEUED);
    return alone;
}

// Examines a page with kept blocks. Returns the units of work.
static unsigned examine(struct heap* heap, struct page* page, bool deep) {
    KEEL_ASSERT(atomic_get(&heap->remote_queue.taken) != 0);
    if (is_complete(heap, page)) {
        (void)remote_queue_take_kept(&heap->remote_queue, page);
        release_page(page);
        atomic_bump(&heap->relieved_pages, 1);
        return 1;
    }
    return deep && empty_queued(&heap->remote_queue, page) ? EMPTY_UNITS : 1;
}

// The next page to examine: an announced one, or a kept one if that is wanted. NULL: none.
static struct page* next_page(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&heap->remote_queue.taken) != 0);
    struct remote_queue* queue = &heap->remote_queue;
    struct block_list list;
    struct page* page = remote_queue_take(queue, &list);
    if (page != NULL) {
        remote_queue_keep(queue, page, list);
        return page;
    }
    uint32_t left = atomic_get(&heap->relief_left);
    if (left == 0) return NULL;
    bool any = atomic_get(&queue->kept_first) != 0; // the owner may have drained them
    atomic_set(&heap->relief_left, any ? left - 1 : 0);
    return any ? remote_queue_next_kept(queue) : NULL;
}

static bool step(struct heap* heap, bool deep) {
    KEEL_ASSERT(atomic_get(&relief.lock.state) != 0);
    unsigned most = deep ? EMPTY_UNITS : 1; // of one page
    unsigned units = 0;
    struct page* page = NULL;
    while (units + most <= RELIEF_STEP_MAX && (page = next_page(heap)) != NULL)
        units += examine(heap, page, deep);
    KEEL_ASSERT(units <= RELIEF_STEP_MAX);
    count_work(WORK_RELIEF_STEP, units);
    return page != NULL;
}

bool heap_relieve(struct heap* heap, bool deep) {
    if (atomic_get(&relief.waiting) != 0 || !os_lock_try(&relief.lock)) return false;
    bool more = false;
    if (remote_queue_enter(&heap->remote_queue)) {
        more = step(heap, deep);
        remote_queue_leave(&heap->remote_queue);
    }
    os_lock_release(&relief.lock);
    return more;
}

void heap_relieve_kept(struct heap* heap) {
    atomic_set(&heap->relief_left, atomic_get(&heap->remote_queue.kept_count));
}

void relief_pause(void) {
    (void)atomic_add(&relief.waiting, 1);
    os_lock_acquire(&relief.lock);
    (void)atomic_sub(&relief.waiting, 1);
}
void relief_resume(void) {
    os_lock_release(&relief.lock);
}
void relief_forget(void) {
    atomic_set(&relief.waiting, 0);
}

#include "allocator/heap/relief.h"
#include "allocator/slices/run.h"
#include "base/counters.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/thread.h"

#define GATHER_ENTRIES 2048u
#define EMPTY_COST (RELIEF_STEP_MAX / 4) // of a step: a system call

// A pass: batches are taken from the queue into `gather`, in steps; then the entries are emptied,
// in steps; then `back` is put back. The lock is released between two steps, so that a thread that
// needs it waits for one step at most.
static struct {
    struct os_lock lock;
    atomic_state waiting;     // threads that wait for the lock: no further step meanwhile
    struct heap* heap;        // that the pass is for; NULL: none, all fields below are empty
    struct remote_chain back; // batches to be put back
    unsigned taken;
    unsigned released;
    unsigned merged;  // batches added to another one of their page, which thus became longer
    unsigned passes;  // so far, of all heaps
    unsigned cleared; // entries emptied; 0: the pass still takes batches
    bool all;         // the queue was found empty
    bool deep;        // queued pages are emptied too
    struct remote_batch gather[GATHER_ENTRIES]; // by page
} relief;

// All blocks of the page are in the batch, and none of the owner's lists leads to the page. The
// acquire pairs with the release in heap_retire_current: the owner's last writes to the page come
// before its end.
static bool is_complete(struct heap* heap, const struct remote_batch* batch) {
    return batch->blocks.count == batch->page->capacity &&
           atomic_get_acquire(&batch->page->owner) == ((uintptr_t)heap | PAGE_FULL);
}

static void release_page(struct page* page) {
    char* start = page->start;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    page_end(page);
    run_release(start, slices);
    count_event(EVENT_RELIEVED_PAGES, 1);
}

// The owner may be writing it. An old value is too large: then the page is left alone.
static KEEL_UNRACED uint32_t used_now(const struct page* page) {
    return page_use(page)->used;
}

// Makes a claimed page one without carved blocks.
static KEEL_UNRACED_UPDATE void page_reset(struct page* page) {
    struct page_use* use = page_use(page);
    bool discarded = os_discard(page->start, page->bytes);
    use->local_free = NULL;
    use->used = 0;
    use->carved = 0;
    use->fresh = discarded ? PAGE_ZERO | PAGE_COLD : 0;
}

// Empties a queued page if the batch has all of its used blocks. The owner writes `used` after all
// else, so a thread that sees its last value, and is ordered after it, sees the other fields too.
static bool empty_queued(const struct remote_batch* batch) {
    struct page* page = batch->page;
    uint32_t count = batch->blocks.count;
    if (page_list(page) != PAGE_QUEUED || used_now(page) != count) return false;
    if (!page_leave_queued(page, PAGE_CLAIMED)) return false;
    bool alone = used_now(page) == count && os_order_threads();
    if (alone) page_reset(page);
    atomic_set_release(&page_use(page)->list, PAGE_QUEUED);
    return alone;
}

// Blocks of 8 bytes have no room for a count: each becomes a batch.
static void put_back_singly(struct remote_chain* chain, const struct remote_batch* batch) {
    struct block* block = batch->blocks.head;
    for (unsigned i = batch->blocks.count; i > 0; i--) {
        struct block* next = i > 1 ? block->next : NULL;
        remote_chain_add(chain, (struct block_list){block, block, 1}, batch->page->block_bytes);
        block = next;
    }
}

// Empties an entry: releases the page, or adds its blocks to the chain that is put back.
static void entry_clear(struct remote_batch* entry) {
    struct page* page = entry->page;
    if (is_complete(relief.heap, entry)) {
        release_page(page);
        atomic_bump(&relief.heap->relieved_pages, 1);
        relief.released++;
    } else if (page->block_bytes < 16) {
        put_back_singly(&relief.back, entry);
    } else {
        remote_chain_add(&relief.back, entry->blocks, page->block_bytes);
    }
    entry->page = NULL;
}

// Pages that follow each other have entries of their own in every other pass. In the passes
// between, two pages with the same entry in one pass have the same entry in another one only by
// chance.
static struct remote_batch* entry_of(const struct page* page) {
    uint64_t index = (uintptr_t)page / sizeof(struct page);
    if (relief.passes % 2 != 0)
        index = (index + relief.passes) * UINT64_C(0x9E3779B97F4A7C15) >> 53;
    return &relief.gather[index % GATHER_ENTRIES];
}

static void gather(struct block_list batch) {
    struct page* page = page_of_block(batch.head);
    struct remote_batch* entry = entry_of(page);
    if (entry->page == page) {
        batch.tail->next = entry->blocks.head;
        entry->blocks.head = batch.head;
        entry->blocks.count += batch.count;
        relief.merged += page->block_bytes >= 16;
        return;
    }
    if (entry->page != NULL) entry_clear(entry);
    *entry = (struct remote_batch){page, batch};
}

// One step of taking. False: there are no more batches, or the pass has taken enough.
static bool take_some(struct remote_queue* queue) {
    struct block_list batch;
    unsigned taken = 0;
    if (!remote_queue_enter(queue)) return false;
    while (taken < RELIEF_STEP_MAX && remote_queue_take(queue, &batch)) {
        gather(batch);
        taken++;
    }
    if (taken < RELIEF_STEP_MAX) relief.all = remote_queue_is_empty(queue);
    remote_queue_leave(queue);
    relief.taken += taken;
    count_work(WORK_RELIEF_BATCHES, taken);
    return taken == RELIEF_STEP_MAX && relief.taken < RELIEF_BATCHES_MAX;
}

// Empties at most `limit` entries. False: all are empty.
static bool clear_some(unsigned limit) {
    unsigned cleared = 0;
    for (; relief.cleared < GATHER_ENTRIES && cleared < limit; relief.cleared++) {
        struct remote_batch* entry = &relief.gather[relief.cleared];
        if (entry->page == NULL) continue;
        if (relief.deep && empty_queued(entry)) {
            entry->page = NULL;
            relief.released++;
            cleared += EMPTY_COST;
            count_event(EVENT_EMPTIED_PAGES, 1);
        } else {
            entry_clear(entry);
            cleared++;
        }
    }
    return relief.cleared < GATHER_ENTRIES;
}

// Puts the batches back. If the pass has not taken all, the rest comes first in the next pass.
static void put_back(struct heap* heap) {
    struct remote_queue* queue = &heap->remote_queue;
    if (relief.back.last == 0) return;
    if (!remote_queue_enter(queue)) {
        (void)remote_queue_push(queue, relief.back); // a thread looks at the heap: watch.h
        return;
    }
    if (atomic_get(&queue->pending) != 0) {
        (void)remote_queue_push(queue, relief.back);
    } else {
        remote_queue_return(queue, relief.back);
        if (relief.all && relief.released == 0 && relief.merged == 0)
            atomic_set(&heap->remote_seen, relief.back.first);
    }
    remote_queue_leave(queue);
}

static void pass_begin(struct heap* heap, bool deep) {
    relief.heap = heap;
    relief.deep = deep;
    relief.taken = relief.released = relief.merged = relief.cleared = 0;
    relief.passes++;
    relief.all = false;
    atomic_set(&heap->remote_seen, 0);
}

static void pass_end(void) {
    put_back(relief.heap);
    relief.back = (struct remote_chain){0, 0};
    relief.heap = NULL;
}

// Ends the pass, in as many steps as that takes.
static void pass_finish(void) {
    relief.deep = false; // a thread may be waiting
    while (clear_some(RELIEF_STEP_MAX)) {
    }
    pass_end();
}

bool heap_relieve(struct heap* heap, bool deep) {
    if (atomic_get(&relief.waiting) != 0 || !os_lock_try(&relief.lock)) return false;
    if (relief.heap != NULL && relief.heap != heap) pass_finish(); // the caller has given it up
    if (relief.heap == NULL) pass_begin(heap, deep);
    if (relief.cleared > 0 || !take_some(&heap->remote_queue)) {
        if (!clear_some(RELIEF_STEP_MAX)) pass_end();
    }
    bool more = relief.heap != NULL;
    os_lock_release(&relief.lock);
    return more;
}

void relief_pause(void) {
    (void)atomic_add(&relief.waiting, 1);
    os_lock_acquire(&relief.lock);
    (void)atomic_sub(&relief.waiting, 1);
    if (relief.heap != NULL) pass_finish();
}
void relief_resume(void) {
    os_lock_release(&relief.lock);
}

#include "allocator/heap/relief.h"
#include "allocator/heap/watch.h"
#include "allocator/slices/run.h"
#include "base/counters.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/thread.h"

#define GATHER_ENTRIES 2048u
#define SCAN_MAX (GATHER_ENTRIES / 4) // entries looked at in one step; most may be unused
// Units for each slice that is emptied, with a system call for each page. All slices of a page, and
// its blocks if the attempt fails, fit into a step.
#define EMPTY_UNITS (RELIEF_STEP_MAX / WIDE_PAGE_SLICES - 1)

// A pass: batches are taken from the queue into `gather`, in steps; then the entries are emptied,
// in steps; then `back` is put back. The lock is released between two steps, so that a thread that
// needs it waits for one step at most.
static struct {
    struct os_lock lock;
    atomic_state waiting;     // threads that wait for the lock: no further step meanwhile
    atomic_word heap;         // that the pass is for; 0: none, all fields below are empty
    atomic_state left;        // 1: a fork has left the keeper of this pass behind
    struct remote_chain back; // batches to be put back
    unsigned taken;
    unsigned released;
    unsigned merged;  // batches added to another one of their page, which thus became longer
    unsigned passes;  // so far, of all heaps
    unsigned cleared; // entries emptied
    bool takes;       // the pass still takes batches
    bool all;         // the queue was found empty
    bool deep;        // queued pages are emptied too
    struct remote_batch gather[GATHER_ENTRIES]; // by page
} relief;

static struct heap* heap_of_pass(void) {
    return (struct heap*)atomic_get(&relief.heap);
}

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

static bool is_queued_and_unused(const struct remote_batch* batch) {
    return page_list(batch->page) == PAGE_QUEUED && used_now(batch->page) == batch->blocks.count;
}

// Empties a queued page if the batch has all of its used blocks. The owner writes `used` after all
// else, so a thread that sees its last value, and is ordered after it, sees the other fields too.
static bool empty_queued(const struct remote_batch* batch) {
    struct page* page = batch->page;
    uint32_t count = batch->blocks.count;
    if (!page_leave_queued(page, PAGE_CLAIMED)) return false;
    bool alone = used_now(page) == count && os_order_threads();
    if (alone) page_reset(page);
    atomic_set_release(&page_use(page)->list, PAGE_QUEUED);
    return alone;
}

// The smallest blocks have no room for a count: each becomes a batch. Puts back at most `limit` of
// them, and returns their number.
static unsigned put_back_singly(struct remote_batch* entry, unsigned limit) {
    unsigned count = 0;
    while (count < limit && entry->blocks.count > 0) {
        struct block* block = entry->blocks.head;
        if (--entry->blocks.count > 0) entry->blocks.head = block_next(block);
        remote_chain_add(&relief.back, (struct block_list){block, block, 1},
                         entry->page->block_bytes);
        count++;
    }
    return count;
}

// Empties an entry: releases the page, or adds its blocks to the chain that is put back. Returns
// the units of work. Only the entry of a page with the smallest blocks may need more than one call.
static unsigned entry_clear(struct remote_batch* entry, unsigned limit) {
    struct page* page = entry->page;
    struct heap* heap = heap_of_pass();
    unsigned units = 1;
    if (is_complete(heap, entry)) {
        release_page(page);
        atomic_bump(&heap->relieved_pages, 1);
        relief.released++;
    } else if (page->block_bytes < MESSAGE_BLOCK_MIN) {
        units = put_back_singly(entry, limit);
        if (entry->blocks.count > 0) return units;
    } else {
        remote_chain_add(&relief.back, entry->blocks, page->block_bytes);
    }
    entry->page = NULL;
    return units;
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
        block_set_next(batch.tail, entry->blocks.head);
        entry->blocks.head = batch.head;
        entry->blocks.count += batch.count;
        relief.merged += page->block_bytes >= MESSAGE_BLOCK_MIN;
        return;
    }
    if (entry->page != NULL && entry->page->block_bytes < MESSAGE_BLOCK_MIN) { // many units of work
        remote_chain_add(&relief.back, batch, page->block_bytes);
        return;
    }
    if (entry->page != NULL) (void)entry_clear(entry, 1);
    *entry = (struct remote_batch){page, batch};
}

// One step of taking.
static void take_some(struct remote_queue* queue) {
    struct block_list batch;
    unsigned taken = 0;
    relief.takes = false;
    if (!remote_queue_enter(queue)) return;
    while (taken < RELIEF_STEP_MAX && remote_queue_take(queue, &batch)) {
        gather(batch);
        taken++;
    }
    if (taken < RELIEF_STEP_MAX) relief.all = remote_queue_is_empty(queue);
    remote_queue_leave(queue);
    relief.taken += taken;
    relief.takes = taken == RELIEF_STEP_MAX && relief.taken < RELIEF_BATCHES_MAX;
    count_work(WORK_RELIEF_STEP, taken);
}

// One step of emptying. False: all entries are empty.
static bool clear_some(void) {
    unsigned units = 0;
    unsigned last = relief.cleared + SCAN_MAX;
    if (last > GATHER_ENTRIES) last = GATHER_ENTRIES;
    while (relief.cleared < last && units < RELIEF_STEP_MAX) {
        struct remote_batch* entry = &relief.gather[relief.cleared];
        if (entry->page != NULL && relief.deep && is_queued_and_unused(entry)) {
            unsigned price = (unsigned)(entry->page->bytes / SLICE_BYTES) * EMPTY_UNITS;
            if (units + price >= RELIEF_STEP_MAX) break;
            units += price;
            if (empty_queued(entry)) {
                entry->page = NULL;
                relief.released++;
                count_event(EVENT_EMPTIED_PAGES, 1);
            }
        }
        if (entry->page != NULL) units += entry_clear(entry, RELIEF_STEP_MAX - units);
        if (entry->page == NULL) relief.cleared++;
    }
    count_work(WORK_RELIEF_STEP, units);
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
    atomic_set(&relief.heap, (uintptr_t)heap);
    relief.deep = deep;
    relief.taken = relief.released = relief.merged = relief.cleared = 0;
    relief.passes++;
    relief.takes = true;
    relief.all = false;
    atomic_set(&heap->remote_seen, 0);
}

static void pass_end(void) {
    struct heap* heap = heap_of_pass();
    put_back(heap);
    relief.back = (struct remote_chain){0, 0};
    atomic_set(&relief.heap, 0);
    if (atomic_get(&relief.left) != 0) heap_watch(heap);
    atomic_set(&relief.left, 0);
}

// One step towards the end of the pass: it takes no more batches.
static void pass_shorten(void) {
    relief.takes = false;
    relief.deep = false;
    if (!clear_some()) pass_end();
}

// No step is begun while a thread waits.
static bool step_begin(void) {
    return atomic_get(&relief.waiting) == 0 && os_lock_try(&relief.lock);
}

bool heap_relieve(struct heap* heap, bool deep) {
    if (!step_begin()) return false;
    if (heap_of_pass() == NULL) pass_begin(heap, deep);
    bool other = heap_of_pass() != heap; // its keeper has given it up
    if (other)
        pass_shorten();
    else if (relief.takes)
        take_some(&heap->remote_queue);
    else if (!clear_some())
        pass_end();
    bool more = other || heap_of_pass() != NULL;
    os_lock_release(&relief.lock);
    return more;
}

bool relief_is_unfinished(const struct heap* heap) {
    return atomic_get(&relief.heap) == (uintptr_t)heap;
}

bool relief_is_left(void) {
    return atomic_get(&relief.left) != 0;
}

bool relief_continue_left(void) {
    if (!step_begin()) return false;
    bool left = relief_is_left();
    if (left) pass_shorten();
    os_lock_release(&relief.lock);
    return left;
}

void relief_pause(void) {
    (void)atomic_add(&relief.waiting, 1);
    os_lock_acquire(&relief.lock);
    (void)atomic_sub(&relief.waiting, 1);
}
void relief_end_and_pause(void) {
    (void)atomic_add(&relief.waiting, 1);
    os_lock_acquire(&relief.lock);
    while (heap_of_pass() != NULL) {
        pass_shorten();
        os_lock_release(&relief.lock); // another thread may wait, too
        os_lock_acquire(&relief.lock);
    }
    (void)atomic_sub(&relief.waiting, 1);
}
void relief_forget(void) {
    atomic_set(&relief.waiting, 0);
    relief.all = false;
    atomic_set(&relief.left, heap_of_pass() != NULL);
}
void relief_resume(void) {
    os_lock_release(&relief.lock);
}

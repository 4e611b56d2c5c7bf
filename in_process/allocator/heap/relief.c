#include "allocator/heap/relief.h"
#include "allocator/slices/run.h"
#include "base/counters.h"
#include "os/lock.h"

#define GATHER_ENTRIES 2048u

static struct {
    struct os_lock lock;
    struct remote_batch gather[GATHER_ENTRIES]; // by page; empty between calls
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
static unsigned entry_clear(struct heap* heap, struct remote_batch* entry,
                            struct remote_chain* back) {
    struct page* page = entry->page;
    if (page == NULL) return 0;
    unsigned released = is_complete(heap, entry);
    if (released) {
        release_page(page);
        atomic_bump(&heap->relieved_pages, 1);
    } else if (page->block_bytes < 16) {
        put_back_singly(back, entry);
    } else {
        remote_chain_add(back, entry->blocks, page->block_bytes);
    }
    entry->page = NULL;
    return released;
}

static unsigned gather(struct heap* heap, struct block_list batch, struct remote_chain* back) {
    struct page* page = page_of_block(batch.head);
    struct remote_batch* entry =
        &relief.gather[((uintptr_t)page / sizeof(struct page)) % GATHER_ENTRIES];
    if (entry->page == page) {
        batch.tail->next = entry->blocks.head;
        entry->blocks.head = batch.head;
        entry->blocks.count += batch.count;
        return 0;
    }
    unsigned released = entry_clear(heap, entry, back);
    *entry = (struct remote_batch){page, batch};
    return released;
}

bool heap_can_be_relieved(struct heap* heap) {
    uintptr_t seen = heap->remote_seen;
    return !remote_queue_is_empty(&heap->remote_queue) &&
           (seen == 0 || atomic_get(&heap->remote_queue.head) != seen);
}

bool heap_relieve(struct heap* heap) {
    struct remote_chain back = {0, 0};
    struct block_list batch;
    unsigned released = 0;
    unsigned taken = 0;
    heap->remote_seen = 0;
    if (!os_lock_try(&relief.lock)) return false;
    if (remote_queue_enter(&heap->remote_queue)) {
        while (taken < RELIEF_BATCHES_MAX && remote_queue_take(&heap->remote_queue, &batch)) {
            released += gather(heap, batch, &back);
            taken++;
        }
        bool all = atomic_get(&heap->remote_queue.pending) == 0;
        remote_queue_leave(&heap->remote_queue);
        for (unsigned i = 0; taken > 0 && i < GATHER_ENTRIES; i++) {
            released += entry_clear(heap, &relief.gather[i], &back);
        }
        // Batches that were pushed in the meantime are below those put back, and have not been
        // examined.
        bool alone = back.last != 0 && remote_queue_push(&heap->remote_queue, back);
        if (all && alone && released == 0) heap->remote_seen = back.first;
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

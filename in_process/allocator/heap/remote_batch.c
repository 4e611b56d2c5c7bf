#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"
#include "base/panic.h"

#define BATCH_BLOCKS_MAX 64u
#define WAITING_BYTES_MAX 32768u

// The page that each thread without a heap is sending to, if one of these words was free.
#define HEAPLESS_SENDERS 4u
static atomic_word heapless_sending[HEAPLESS_SENDERS];

static void announce(const struct page* page, struct block* first) {
    KEEL_ASSERT((uintptr_t)page_heap(atomic_get(&page->owner)) != 0);
    KEEL_ASSERT(((uintptr_t)page_heap(atomic_get(&page->owner)) & HEAP_USER) == 0);
    struct heap* owner = page_heap(atomic_get(&page->owner));
    if (remote_queue_announce(&owner->remote_queue, first)) heap_watch(owner);
}

// Puts the blocks into the list of their page and announces the page if necessary. Between the two
// steps no other thread will announce it: `*sending` is for a forked child that does not have this
// thread. True: the page has been announced.
static bool send(struct page* page, struct block_list list, atomic_word* sending) {
    KEEL_ASSERT(list_count(list.word) > 0 && list.tail != NULL);
    atomic_set(sending, (uintptr_t)page);
    bool first = remote_list_push(page, list);
    if (first) announce(page, list.tail);
    atomic_set(sending, 0);
    return first;
}

static bool batch_send(struct heap* heap, struct remote_batch* batch) {
    KEEL_ASSERT(batch->page != NULL && batch->bytes <= heap->waiting_bytes);
    KEEL_ASSERT(list_count(batch->blocks.word) <= BATCH_BLOCKS_MAX);
    struct page* page = batch->page;
    batch->page = NULL;
    heap->waiting_bytes -= batch->bytes;
    atomic_bump(&heap->counts[HEAP_BATCHES_SENT], 1);
    atomic_bump(&heap->counts[HEAP_BLOCKS_SENT], list_count(batch->blocks.word));
    bool announced = send(page, batch->blocks, &heap->sending);
    if (announced) atomic_bump(&heap->counts[HEAP_PAGES_ANNOUNCED], 1);
    return announced;
}

void remote_batch_send_block(struct page* page, void* address) {
    KEEL_ASSERT(!page_is_large(page) && page_of_block(address) == page);
    struct block_list list = list_of_one(address);
    atomic_word unrecorded;
    atomic_word* sending = &unrecorded;
    for (unsigned i = 0; i < HEAPLESS_SENDERS && sending == &unrecorded; i++) {
        uintptr_t expected = 0;
        if (atomic_try_word(&heapless_sending[i], &expected, (uintptr_t)page))
            sending = &heapless_sending[i];
    }
    (void)send(page, list, sending);
}

// `count`: the number of blocks in the batch. Those that come first lead to the first one.
KEEL_INLINE void leave_hint(struct remote_batch* batch, struct block* block, uint32_t count) {
    if (!queue_has_hints(batch->page)) return;
    uint16_t entry = queue_entry(block);
    if (count == 0) {
        for (unsigned i = 0; i < BATCH_RECENT; i++) batch->recent[i] = entry;
    } else {
        block_set_hint(block, batch->recent[count % BATCH_RECENT]);
        batch->recent[count % BATCH_RECENT] = entry;
    }
}

bool remote_batch_add(struct heap* heap, struct page* page, void* address) {
    KEEL_ASSERT(!page_is_large(page) && page_of_block(address) == page);
    KEEL_ASSERT(page_heap(atomic_get(&page->owner)) != heap);
    struct block* block = address;
    bool announced = false;
    uint32_t bytes = page->block_bytes;
    struct remote_batch* batch =
        &heap->batches[((uintptr_t)page / sizeof(struct page)) % HEAP_BATCHES];
    KEEL_PREFETCH_TO_WRITE(block); // it is written when the batch is sent
    heap->waiting_bytes += bytes;
    if (batch->page == page) {
        uint32_t count = list_count(batch->blocks.word) + 1;
        block_set_next(block, list_head(batch->blocks.word));
        if (KEEL_SECURE) leave_hint(batch, block, count - 1);
        batch->blocks.word = list_word(block, count);
        batch->bytes += bytes;
        if (count == BATCH_BLOCKS_MAX) announced = batch_send(heap, batch);
    } else {
        if (batch->page != NULL) announced = batch_send(heap, batch);
        batch->page = page;
        batch->blocks = list_of_one(block);
        batch->bytes = bytes;
        if (KEEL_SECURE) leave_hint(batch, block, 0);
    }
    while (KEEL_UNLIKELY(heap->waiting_bytes > WAITING_BYTES_MAX)) {
        batch = &heap->batches[heap->batch_next++ % HEAP_BATCHES];
        if (batch->page != NULL) announced |= batch_send(heap, batch);
    }
    return announced;
}

void remote_batch_flush(struct heap* heap) {
    if (heap->waiting_bytes == 0) return;
    for (unsigned i = 0; i < HEAP_BATCHES; i++) {
        if (heap->batches[i].page != NULL) (void)batch_send(heap, &heap->batches[i]);
    }
}

// --- Fork ----------------------------------------------------------------------------------------

static void repair(atomic_word* sending) {
    const struct page* page = (const struct page*)atomic_get(sending);
    atomic_set(sending, 0);
    if (page == NULL) return;
    uintptr_t word = atomic_get(&page_remote(page)->list);
    if (word == 0) return;
    struct heap* owner = page_heap(atomic_get(&page->owner));
    if (remote_queue_contains(&owner->remote_queue, page)) return;
    announce(page, remote_list_last(word));
}

void remote_batch_repair(struct heap* heap) {
    repair(&heap->sending);
}

void remote_batch_repair_heapless(void) {
    for (unsigned i = 0; i < HEAPLESS_SENDERS; i++) repair(&heapless_sending[i]);
}

#include "allocator/heap/batch.h"

#define BATCH_BLOCKS_MAX 32u
#define OUTBOX_BATCHES_MAX 16u
#define WAITING_BYTES_MAX 32768u

static struct heap* home_of(struct page* page) {
    return page_heap(atomic_get(&page->owner));
}

static void outbox_send(struct heap* heap, struct outbox* outbox) {
    atomic_bump(&heap->counts[HEAP_MAIL_SENT], 1);
    heap->waiting_bytes -= outbox->bytes;
    (void)inbox_push_mail(&outbox->home->inbox, outbox->mail);
    *outbox = (struct outbox){.home = NULL};
}

static struct outbox* outbox_of(struct heap* heap, struct heap* home) {
    return &heap->outbox[((uintptr_t)home / sizeof(struct heap)) % HEAP_OUTBOXES];
}

// True: mail has been sent.
static bool outbox_add(struct heap* heap, struct page* page, struct batch_list list) {
    struct heap* home = home_of(page);
    struct outbox* outbox = outbox_of(heap, home);
    bool sent = outbox->home != home && outbox->home != NULL;
    if (sent) outbox_send(heap, outbox);
    outbox->home = home;
    outbox->bytes += list.count * page->block_bytes;
    mail_add(&outbox->mail, list, page->block_bytes);
    atomic_bump(&heap->counts[HEAP_BATCH_SENT], 1);
    atomic_bump(&heap->counts[HEAP_BLOCKS_SENT], list.count);
    if (++outbox->batches < OUTBOX_BATCHES_MAX) return sent;
    outbox_send(heap, outbox);
    return true;
}

static bool slot_empty(struct heap* heap, struct batch* slot) {
    struct page* page = slot->page;
    slot->page = NULL;
    return outbox_add(heap, page, slot->list);
}

void batch_send_single(struct page* page, void* address) {
    struct batch_list list = {address, address, 1};
    inbox_push(&home_of(page)->inbox, list, page->block_bytes);
}

bool batch_add(struct heap* heap, struct page* page, void* address) {
    struct block* block = address;
    struct batch_list single = {block, block, 1};
    uint32_t bytes = page->block_bytes;
    bool sent = false;
    heap->waiting_bytes += bytes;
    struct batch* slot = &heap->batch[((uintptr_t)page / sizeof(struct page)) % HEAP_BATCHES];
    if (bytes < 16) {
        sent =
            outbox_add(heap, page, single); // there is no room for a batch's length in its blocks
    } else if (slot->page == page) {
        block->next = slot->list.head;
        slot->list.head = block;
        if (++slot->list.count == BATCH_BLOCKS_MAX) sent = slot_empty(heap, slot);
    } else {
        if (slot->page != NULL) sent = slot_empty(heap, slot);
        slot->page = page;
        slot->list = single;
    }
    if (heap->waiting_bytes <= WAITING_BYTES_MAX) return sent;
    batch_flush(heap);
    return true;
}

void batch_flush(struct heap* heap) {
    if (heap->waiting_bytes == 0) return;
    for (unsigned i = 0; i < HEAP_BATCHES; i++) {
        if (heap->batch[i].page != NULL) (void)slot_empty(heap, &heap->batch[i]);
    }
    for (unsigned i = 0; i < HEAP_OUTBOXES; i++) {
        if (heap->outbox[i].home != NULL) outbox_send(heap, &heap->outbox[i]);
    }
}

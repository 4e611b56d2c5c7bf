#include "allocator/heap/batch.h"

#define BATCH_BLOCKS_MAX 32u
#define BATCH_BYTES_MAX 16384u

static void send(struct page* page, struct batch_list list) {
    struct heap* home = page_heap(atomic_get(&page->owner));
    inbox_push(&home->inbox, list, page->block_bytes);
}

static void slot_send(struct heap* heap, struct batch* slot) {
    struct page* page = slot->page;
    atomic_bump(&heap->counts[HEAP_BATCH_SENT], 1);
    atomic_bump(&heap->counts[HEAP_BLOCKS_SENT], slot->list.count);
    heap->batch_bytes -= slot->list.count * page->block_bytes;
    slot->page = NULL;
    send(page, slot->list);
}

void batch_send_single(struct page* page, void* address) {
    send(page, (struct batch_list){address, address, 1});
}

void batch_add(struct heap* heap, struct page* page, void* address) {
    struct block* block = address;
    uint32_t bytes = page->block_bytes;
    if (bytes < 16 ||
        bytes > BATCH_BYTES_MAX / 2) { // no room for the batch's length, or nothing to gather
        atomic_bump(&heap->counts[HEAP_BATCH_SENT], 1);
        atomic_bump(&heap->counts[HEAP_BLOCKS_SENT], 1);
        batch_send_single(page, block);
        return;
    }
    struct batch* slot = &heap->batch[((uintptr_t)page / sizeof(struct page)) % HEAP_BATCHES];
    heap->batch_bytes += bytes;
    if (slot->page == page) {
        block->next = slot->list.head;
        slot->list.head = block;
        if (++slot->list.count == BATCH_BLOCKS_MAX) slot_send(heap, slot);
    } else {
        if (slot->page != NULL) slot_send(heap, slot);
        slot->page = page;
        slot->list = (struct batch_list){block, block, 1};
    }
    if (heap->batch_bytes > BATCH_BYTES_MAX) batch_flush(heap);
}

void batch_flush(struct heap* heap) {
    if (heap->batch_bytes == 0) return;
    for (unsigned i = 0; i < HEAP_BATCHES; i++) {
        if (heap->batch[i].page != NULL) slot_send(heap, &heap->batch[i]);
    }
}

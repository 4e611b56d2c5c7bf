#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"

#define BATCH_BLOCKS_MAX 32u
#define CHAIN_BATCHES_MAX 16u
#define WAITING_BYTES_MAX 32768u

static struct heap* owner_of(struct page* page) {
    return page_heap(atomic_get(&page->owner));
}

static void owner_chain_send(struct heap* heap, struct owner_chain* entry) {
    atomic_bump(&heap->counts[HEAP_CHAINS_SENT], 1);
    heap->waiting_bytes -= entry->bytes;
    if (remote_queue_push(&entry->owner->remote_queue, entry->chain)) heap_watch(entry->owner);
    *entry = (struct owner_chain){.owner = NULL};
}

static struct owner_chain* owner_chain_of(struct heap* heap, struct heap* owner) {
    return &heap->owner_chains[((uintptr_t)owner / sizeof(struct heap)) % HEAP_OWNER_CHAINS];
}

// True: a chain has been sent.
static bool owner_chain_add(struct heap* heap, struct page* page, struct block_list blocks) {
    struct heap* owner = owner_of(page);
    struct owner_chain* entry = owner_chain_of(heap, owner);
    bool sent = entry->owner != owner && entry->owner != NULL;
    if (sent) owner_chain_send(heap, entry);
    entry->owner = owner;
    entry->bytes += blocks.count * page->block_bytes;
    remote_chain_add(&entry->chain, blocks, page->block_bytes);
    atomic_bump(&heap->counts[HEAP_BATCHES_SENT], 1);
    atomic_bump(&heap->counts[HEAP_BLOCKS_SENT], blocks.count);
    if (++entry->batches < CHAIN_BATCHES_MAX) return sent;
    owner_chain_send(heap, entry);
    return true;
}

static bool batch_finish(struct heap* heap, struct remote_batch* batch) {
    struct page* page = batch->page;
    batch->page = NULL;
    return owner_chain_add(heap, page, batch->blocks);
}

void remote_batch_send_block(struct page* page, void* address) {
    struct block_list blocks = {address, address, 1};
    struct heap* owner = owner_of(page);
    if (remote_queue_push_batch(&owner->remote_queue, blocks, page->block_bytes)) heap_watch(owner);
}

bool remote_batch_add(struct heap* heap, struct page* page, void* address) {
    struct block* block = address;
    struct block_list single = {block, block, 1};
    uint32_t bytes = page->block_bytes;
    bool sent = false;
    heap->waiting_bytes += bytes;
    struct remote_batch* batch =
        &heap->batches[((uintptr_t)page / sizeof(struct page)) % HEAP_BATCHES];
    if (bytes < MESSAGE_BLOCK_MIN) {
        sent = owner_chain_add(heap, page, single); // its blocks have no room for a length
    } else if (batch->page == page) {
        block_set_next(block, batch->blocks.head);
        batch->blocks.head = block;
        if (++batch->blocks.count == BATCH_BLOCKS_MAX) sent = batch_finish(heap, batch);
    } else {
        if (batch->page != NULL) sent = batch_finish(heap, batch);
        batch->page = page;
        batch->blocks = single;
    }
    if (heap->waiting_bytes <= WAITING_BYTES_MAX) return sent;
    remote_batch_flush(heap);
    return true;
}

void remote_batch_flush(struct heap* heap) {
    if (heap->waiting_bytes == 0) return;
    for (unsigned i = 0; i < HEAP_BATCHES; i++) {
        if (heap->batches[i].page != NULL) (void)batch_finish(heap, &heap->batches[i]);
    }
    for (unsigned i = 0; i < HEAP_OWNER_CHAINS; i++) {
        if (heap->owner_chains[i].owner != NULL) owner_chain_send(heap, &heap->owner_chains[i]);
    }
}

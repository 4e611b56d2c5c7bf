#include "allocator/heap/remote_queue.h"

#define LINK_PENDING ((uintptr_t)1)

// A batch in the queue. The struct is in the block of the batch that was freed first.
struct message {
    atomic_word link;     // next batch, 0 at the end, or LINK_PENDING
    uintptr_t head_count; // head of the batch | count << 48; absent from the smallest blocks
};
// The values that the two words stand for; the secure flavour masks them (page/block_guard.h).
#define LINK(message, value) ((value) ^ block_mask(message))

void remote_chain_add(struct remote_chain* chain, struct block_list batch, uint32_t block_bytes) {
    struct message* message = (struct message*)batch.tail;
    if (block_bytes >= MESSAGE_BLOCK_MIN) {
        uintptr_t head_count = (uintptr_t)batch.head | (uintptr_t)batch.count << ADDRESS_BITS;
        message->head_count = LINK(message, head_count);
    }
    atomic_set(&message->link, LINK(message, chain->first));
    chain->first = (uintptr_t)message;
    if (chain->last == 0) chain->last = (uintptr_t)message;
}

bool remote_queue_push(struct remote_queue* queue, struct remote_chain chain) {
    struct message* last = (struct message*)chain.last;
    atomic_set(&last->link, LINK(last, LINK_PENDING));
    uintptr_t before = atomic_swap(&queue->head, chain.first);
    atomic_set_release(&last->link, LINK(last, before));
    return before == 0;
}

bool remote_queue_push_batch(struct remote_queue* queue, struct block_list batch,
                             uint32_t block_bytes) {
    struct remote_chain chain = {0, 0};
    remote_chain_add(&chain, batch, block_bytes);
    return remote_queue_push(queue, chain);
}

void remote_queue_return(struct remote_queue* queue, struct remote_chain chain) {
    struct message* last = (struct message*)chain.last;
    atomic_set(&last->link, LINK(last, atomic_get(&queue->pending)));
    atomic_set(&queue->pending, chain.first);
}

static void end_at_pending_link(uintptr_t first) {
    for (struct message* message = (struct message*)first; message != NULL;) {
        uintptr_t link = LINK(message, atomic_get(&message->link));
        if (link == LINK_PENDING) {
            atomic_set(&message->link, LINK(message, 0));
            return;
        }
        message = (struct message*)link;
    }
}

void remote_queue_repair(struct remote_queue* queue) {
    end_at_pending_link(atomic_get(&queue->pending));
    end_at_pending_link(atomic_get(&queue->head));
}

bool remote_queue_take(struct remote_queue* queue, struct block_list* batch) {
    uintptr_t next = atomic_get(&queue->pending);
    if (next == 0) {
        if (atomic_get(&queue->head) == 0) return false;
        next = atomic_swap(&queue->head, 0);
        if (next == 0) return false;
        atomic_set(&queue->pending, next);
    }
    struct message* message = (struct message*)next;
    block_require_free(message);
    uintptr_t link = LINK(message, atomic_get_acquire(&message->link));
    if (link == LINK_PENDING) return false;
    atomic_set(&queue->pending, link);
    if (link != 0) { // the next call reads it
        KEEL_PREFETCH((void*)link);
        KEEL_PREFETCH(page_of((void*)link));
    }

    // The page cannot end, because this block of it counts as used.
    const struct page* page = page_of_block(message);
    batch->tail = (struct block*)message;
    if (page->block_bytes >= MESSAGE_BLOCK_MIN) {
        uintptr_t head_count = LINK(message, message->head_count);
        batch->head = (struct block*)(head_count & ((UINT64_C(1) << ADDRESS_BITS) - 1));
        batch->count = (unsigned)(head_count >> ADDRESS_BITS);
        block_require_free(batch->head);
        if (KEEL_SECURE) message->head_count = 0; // see block_is_zero
    } else {
        batch->head = batch->tail;
        batch->count = 1;
    }
    return true;
}

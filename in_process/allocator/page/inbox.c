#include "allocator/page/inbox.h"

#define LINK_PENDING ((uintptr_t)1)
#define ADDRESS_BITS 48

struct message {
    atomic_word link;     // next message, 0 at the end, or LINK_PENDING
    uintptr_t head_count; // head of the batch | count << 48; not present in blocks of 8 bytes
};

void inbox_push(struct inbox* inbox, struct batch_list batch, uint32_t block_bytes) {
    struct message* message = (struct message*)batch.tail;
    if (block_bytes >= sizeof(struct message)) {
        message->head_count = (uintptr_t)batch.head | (uintptr_t)batch.count << ADDRESS_BITS;
    }
    atomic_set(&message->link, LINK_PENDING);
    uintptr_t before = atomic_swap(&inbox->head, (uintptr_t)message);
    atomic_set_release(&message->link, before);
}

bool inbox_take(struct inbox* inbox, struct batch_list* batch) {
    if (inbox->pending == 0) {
        if (atomic_get(&inbox->head) == 0) return false;
        inbox->pending = atomic_swap(&inbox->head, 0);
        if (inbox->pending == 0) return false;
    }
    struct message* message = (struct message*)inbox->pending;
    uintptr_t link = atomic_get_acquire(&message->link);
    if (link == LINK_PENDING) return false;
    inbox->pending = link;

    // The page cannot go away: its block in our hands is counted as used.
    struct page* page = page_of(message);
    page -= page->distance;
    batch->tail = (struct block*)message;
    if (page->block_bytes >= sizeof(struct message)) {
        batch->head = (struct block*)(message->head_count & ((UINT64_C(1) << ADDRESS_BITS) - 1));
        batch->count = (unsigned)(message->head_count >> ADDRESS_BITS);
    } else {
        batch->head = batch->tail;
        batch->count = 1;
    }
    return true;
}

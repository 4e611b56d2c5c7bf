#include "allocator/page/inbox.h"

#define LINK_PENDING ((uintptr_t)1)
#define ADDRESS_BITS 48

struct message {
    atomic_word link;     // next message, 0 at the end, or LINK_PENDING
    uintptr_t head_count; // head of the batch | count << 48; not present in blocks of 8 bytes
};

void mail_add(struct mail* mail, struct batch_list batch, uint32_t block_bytes) {
    struct message* message = (struct message*)batch.tail;
    if (block_bytes >= sizeof(struct message)) {
        message->head_count = (uintptr_t)batch.head | (uintptr_t)batch.count << ADDRESS_BITS;
    }
    atomic_set(&message->link, mail->first);
    mail->first = (uintptr_t)message;
    if (mail->last == 0) mail->last = (uintptr_t)message;
}

bool inbox_push_mail(struct inbox* inbox, struct mail mail) {
    struct message* last = (struct message*)mail.last;
    atomic_set(&last->link, LINK_PENDING);
    uintptr_t before = atomic_swap(&inbox->head, mail.first);
    atomic_set_release(&last->link, before);
    return before == 0;
}

void inbox_push(struct inbox* inbox, struct batch_list batch, uint32_t block_bytes) {
    struct mail mail = {0, 0};
    mail_add(&mail, batch, block_bytes);
    (void)inbox_push_mail(inbox, mail);
}

bool inbox_take(struct inbox* inbox, struct batch_list* batch) {
    uintptr_t next = atomic_get(&inbox->pending);
    if (next == 0) {
        if (atomic_get(&inbox->head) == 0) return false;
        next = atomic_swap(&inbox->head, 0);
        if (next == 0) return false;
        atomic_set(&inbox->pending, next);
    }
    struct message* message = (struct message*)next;
    uintptr_t link = atomic_get_acquire(&message->link);
    if (link == LINK_PENDING) return false;
    atomic_set(&inbox->pending, link);
    if (link != 0) { // where the next call will look
        KEEL_PREFETCH((void*)link);
        KEEL_PREFETCH(page_of((void*)link));
    }

    // The page cannot go away: its block in our hands is counted as used.
    const struct page* page = page_of_block(message);
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

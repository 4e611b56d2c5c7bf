// The lock-free way home of blocks that other threads free: one inbox a heap.
//
// Idea: producers push messages with ONE exchange (wait-free); the consumer takes the whole stack
// with one exchange and then walks it at its own pace. A message is the first block of a batch; the
// batch's blocks are all of one page, linked, so that it comes home in O(1) whatever its length:
//
//   inbox.head -> M3 -> M2 -> M1 -> 0                 (word 0: next message)
//                 | word 1: last freed block of the batch, and their number
//                 +--> b9 -> b7 -> b4 -> M3           (word 0: next block; M3, freed first, is last)
//
// A producer's link is written after its exchange. A consumer that finds it still unwritten
// (LINK_PENDING) stops there and goes on another time: nobody ever waits. Blocks of 8 bytes have no
// word 1; their batches are of one. Unlike a queue with a stub element, everything that was pushed
// can be taken.
#ifndef KEEL_ALLOCATOR_PAGE_INBOX_H
#define KEEL_ALLOCATOR_PAGE_INBOX_H

#include "allocator/arena/page_map.h"
#include <stdbool.h>

#define INBOX_DRAIN_MAX 32u // batches that one drain takes

struct inbox {
    atomic_word head;  // newest message; any thread
    uintptr_t pending; // next message of the stack taken last; consumer only
};

struct batch_list {
    struct block* head;
    struct block* tail;
    unsigned count; // 1..65535
};

// Any thread. The blocks are of one page whose blocks have block_bytes.
void inbox_push(struct inbox* inbox, struct batch_list batch, uint32_t block_bytes);

// Consumer only. False: nothing (more) can be taken now.
bool inbox_take(struct inbox* inbox, struct batch_list* batch);

KEEL_INLINE bool inbox_has_mail(struct inbox* inbox) {
    return inbox->pending != 0 || atomic_get(&inbox->head) != 0;
}

#endif

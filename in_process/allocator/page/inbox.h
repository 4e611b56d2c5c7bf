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
// Several messages may be chained first and pushed as one (struct mail).
//
// The link of what was pushed is written after the exchange. A consumer that finds it still unwritten
// (LINK_PENDING) stops there and goes on another time: nobody ever waits. Blocks of 8 bytes have no
// word 1; their batches are of one. Unlike a queue with a stub element, everything that was pushed
// can be taken.
#ifndef KEEL_ALLOCATOR_PAGE_INBOX_H
#define KEEL_ALLOCATOR_PAGE_INBOX_H

#include "allocator/arena/page_map.h"
#include <stdbool.h>

// Whoever consumes holds the inbox meanwhile: as a rule the thread whose heap it is, and the keeper
// for heaps whose thread sleeps. Nobody waits for it: who does not get it goes without.
#define INBOX_DRAIN_MAX 32u // batches that one drain takes

struct inbox {
    atomic_word head;    // newest message; any thread
    atomic_word pending; // next message of the stack taken last; the consumer writes
    atomic_state taken;  // 1: somebody consumes
};

struct batch_list {
    struct block* head;
    struct block* tail;
    unsigned count; // 1..65535
};

// Messages on their way to one inbox.
struct mail {
    uintptr_t first; // newest
    uintptr_t last;  // 0: no mail
};

// Adds a message. The blocks are of one page whose blocks have block_bytes.
void mail_add(struct mail* mail, struct batch_list batch, uint32_t block_bytes);

// Any thread; there is mail. One exchange however much it is. True: nothing was pushed before that nobody has taken.
bool inbox_push_mail(struct inbox* inbox, struct mail mail);

// The same for one message.
void inbox_push(struct inbox* inbox, struct batch_list batch, uint32_t block_bytes);

// Become the consumer, if nobody is; cease to be it.
KEEL_INLINE bool inbox_enter(struct inbox* inbox) {
    uint32_t expected = 0;
    return atomic_try_state(&inbox->taken, &expected, 1);
}
KEEL_INLINE void inbox_leave(struct inbox* inbox) {
    atomic_set_release(&inbox->taken, 0);
}

// Consumer only. False: nothing (more) can be taken now.
bool inbox_take(struct inbox* inbox, struct batch_list* batch);

// Any thread; of this moment.
KEEL_INLINE bool inbox_has_mail(struct inbox* inbox) {
    return atomic_get(&inbox->pending) != 0 || atomic_get(&inbox->head) != 0;
}

#endif

// The remote queue of a heap: blocks of its pages that other threads have freed. Lock-free.
//
// Producers push with ONE exchange (wait-free). The consumer takes the whole stack with one
// exchange and then walks it. An entry is a batch: linked blocks of one page. The first block that
// was freed into the batch carries the links, so that a batch of any length is accepted in O(1):
//
//   queue.head -> M3 -> M2 -> M1 -> 0                 (word 0: next batch)
//                 | word 1: last freed block of the batch, and their number
//                 +--> b9 -> b7 -> b4 -> M3           (word 0: next block; M3 was freed first)
//
// Several batches may be chained first and pushed as one (struct remote_chain).
//
// A producer writes the link of its chain after the exchange. A consumer that finds the link still
// unwritten (LINK_PENDING) stops there and continues in a later call: no thread ever waits. Blocks
// of 8 bytes have no word 1; their batches contain one block. The queue has no stub element, so the
// consumer can take every batch that was pushed.
#ifndef KEEL_ALLOCATOR_HEAP_REMOTE_QUEUE_H
#define KEEL_ALLOCATOR_HEAP_REMOTE_QUEUE_H

#include "allocator/page/block_guard.h"
#include "allocator/slices/page_map.h"
#include <stdbool.h>

#define REMOTE_DRAIN_MAX 32u // batches that one drain takes
// A block has room for the two words above from this size on.
#define MESSAGE_BLOCK_MIN (16 + BLOCK_STATE_BYTES)

// The consumer holds the queue while it consumes. It is normally the thread that holds the heap, or
// the keeper for a heap whose thread sleeps. A thread that cannot become the consumer continues
// without the batches.
struct remote_queue {
    atomic_word head;    // newest batch; any thread
    atomic_word pending; // next batch of the stack taken last; the consumer writes
    atomic_state taken;  // 1: a thread consumes
};

// Linked blocks of one page: a batch.
struct block_list {
    struct block* head;
    struct block* tail;
    unsigned count; // 1..65535
};

// Linked batches for one remote queue.
struct remote_chain {
    uintptr_t first; // newest
    uintptr_t last;  // 0: empty
};

// Adds a batch. block_bytes is the size of its blocks.
void remote_chain_add(struct remote_chain* chain, struct block_list batch, uint32_t block_bytes);

// Pushes a chain that is not empty. Any thread may call it. Makes one exchange for a chain of any
// length. True: the stack was empty.
bool remote_queue_push(struct remote_queue* queue, struct remote_chain chain);

// Pushes one batch. Result as above.
bool remote_queue_push_batch(struct remote_queue* queue, struct block_list batch,
                             uint32_t block_bytes);

// remote_queue_enter makes the calling thread the consumer, or returns false if another thread is.
// remote_queue_leave ends this.
KEEL_INLINE bool remote_queue_enter(struct remote_queue* queue) {
    uint32_t expected = 0;
    return atomic_try_state(&queue->taken, &expected, 1);
}
KEEL_INLINE void remote_queue_leave(struct remote_queue* queue) {
    atomic_set_release(&queue->taken, 0);
}

// In a forked child, before any other thread uses the queue. At the fork, another thread may have
// exchanged the head without having written its link yet. This thread does not exist in the child.
// The function ends the list there: the batches behind that link cannot be found and are lost.
// Linear in the number of batches.
void remote_queue_repair(struct remote_queue* queue);

// Consumer only. False: no batch can be taken now.
bool remote_queue_take(struct remote_queue* queue, struct block_list* batch);

// Consumer only: puts batches back that it has taken. They are taken again before all others.
void remote_queue_return(struct remote_queue* queue, struct remote_chain chain);

// Any thread. The answer may be outdated at once.
KEEL_INLINE bool remote_queue_is_empty(const struct remote_queue* queue) {
    return atomic_get(&queue->pending) == 0 && atomic_get(&queue->head) == 0;
}

#endif

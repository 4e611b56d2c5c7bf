// Remote frees: blocks of a heap's pages that other threads have freed. Lock-free.
//
// Each page has a remote list. Its word holds the block that was freed last and the number of
// blocks:
//
//   page_remote.list == b4 | 3 << 48
//                       b4 -> b7 -> b9        word 0 of each block: the next block of the list
//
// A thread that frees blocks of the page puts them in front of the list with ONE compare-and-swap,
// which fails only if another thread has just changed the list of the same page. If the list was
// empty, it then announces the page: it pushes the first block of the list, which stays the last
// one of the list, to the remote queue of the heap that owns the page. The link is in word 0 of
// this block, so no page needs a field for it, and a block of 8 bytes is large enough:
//
//   queue.head -> b9 of page 5 -> b2 of page 3 -> 0
//
// The consumer takes the whole queue with one exchange, and then the whole list of one page after
// the other, each with one exchange: it knows the list's length and both of its ends without
// walking it. All bounds are in pages. From this exchange on, the page can be announced again.
//
//   list:   empty --free by another thread--> not empty, soon announced --consumer--> empty
//
// A page is announced at most once at a time, and only while its list is not empty. Its blocks in
// the list count as used, so it cannot end while it is announced.
//
// The consumer can also keep lists that it has taken (heap/relief.h): then they wait in the page,
// and the page in the list `kept` of the queue.
#ifndef KEEL_ALLOCATOR_HEAP_REMOTE_QUEUE_H
#define KEEL_ALLOCATOR_HEAP_REMOTE_QUEUE_H

#include "allocator/page/block_guard.h"
#include "allocator/space/page_map.h"
#include <stdbool.h>

#define REMOTE_DRAIN_MAX 32u // pages that one drain takes

// The consumer holds the queue while it consumes. It is normally the thread that holds the heap, or
// the keeper for a heap whose thread sleeps. A thread that cannot become the consumer continues
// without the blocks.
struct remote_queue {
    KEEL_ALIGNED(KEEL_CACHE_LINE)
    atomic_word pending;     // rest of the queue taken last; the consumer writes
    atomic_word kept_first;  // pages with kept blocks; the consumer writes
    struct page* kept_last;  // valid unless kept_first == 0; the consumer alone
    atomic_state kept_count; // pages in that list; the consumer writes
    atomic_state taken;      // 1: a thread consumes
    KEEL_ALIGNED(KEEL_CACHE_LINE) atomic_word head; // page announced last; any thread
};

_Static_assert(offsetof(struct remote_queue, head) == KEEL_CACHE_LINE &&
                   sizeof(struct remote_queue) == 2 * KEEL_CACHE_LINE,
               "the consumer's cache line, and that of the other threads");

// Linked blocks of one page. Word 0 of the last one is undefined.
struct block_list {
    uintptr_t word; // first block | number of blocks << ADDRESS_BITS, as in page_remote
    struct block* tail;
};

KEEL_INLINE struct block* list_head(uintptr_t word) {
    return (struct block*)(word & ((UINT64_C(1) << ADDRESS_BITS) - 1));
}
KEEL_INLINE uint32_t list_count(uintptr_t word) {
    return (uint32_t)(word >> ADDRESS_BITS);
}
KEEL_INLINE uintptr_t list_word(const struct block* head, uint32_t count) {
    return (uintptr_t)head | (uintptr_t)count << ADDRESS_BITS;
}
KEEL_INLINE struct block_list list_of_one(struct block* block) {
    return (struct block_list){list_word(block, 1), block};
}

// Puts the blocks in front of the remote list of their page. The caller must hold them. True: the
// list was empty, so the caller must announce the page. Any thread; each further try follows a
// change of this list by another thread.
KEEL_INLINE bool remote_list_push(struct page* page, struct block_list list) {
    atomic_word* word = &page_remote(page)->list;
    uintptr_t before = atomic_get(word);
    uintptr_t after;
    do {
        block_set_next(list.tail, list_head(before));
        after = list.word + ((uintptr_t)list_count(before) << ADDRESS_BITS);
    } while (!atomic_try_word(word, &before, after));
    return before == 0;
}

// Announces the page of a list that was pushed. `first` is the last block of it. True: the queue
// was empty. Any thread; each further try follows an announcement by another thread.
bool remote_queue_announce(struct remote_queue* queue, struct block* first);

// remote_queue_enter makes the calling thread the consumer, or returns false if another thread is.
// remote_queue_leave ends this.
KEEL_INLINE bool remote_queue_enter(struct remote_queue* queue) {
    uint32_t expected = 0;
    return atomic_try_state(&queue->taken, &expected, 1);
}
KEEL_INLINE void remote_queue_leave(struct remote_queue* queue) {
    atomic_set_release(&queue->taken, 0);
}

// Consumer only: takes the remote list of the next announced page. NULL: no page is announced.
// O(1).
struct page* remote_queue_take(struct remote_queue* queue, struct block_list* list);

// Consumer only: keeps a list that it has taken, in front of what is kept of that page. O(1).
void remote_queue_keep(struct remote_queue* queue, struct page* page, struct block_list list);

// Consumer only: the first page with kept blocks, which becomes the last one. The queue keeps at
// least one page. O(1).
struct page* remote_queue_next_kept(struct remote_queue* queue);

// Consumer only: takes the blocks that are kept of this page. O(1).
struct block_list remote_queue_take_kept(struct remote_queue* queue, struct page* page);

// For a forked child, in which no other thread exists. The first function returns the last block of
// a list that is not empty, and is linear in its blocks; the second one states whether the page is
// announced, and is linear in the announced pages.
struct block* remote_list_last(uintptr_t list);
bool remote_queue_contains(const struct remote_queue* queue, const struct page* page);

// Verifies the kept pages; only when no other thread is active.
bool remote_queue_check(const struct remote_queue* queue);

// True: at least one page is announced. Any thread; the answer may be outdated at once.
KEEL_INLINE bool remote_queue_has_announced(const struct remote_queue* queue) {
    return atomic_get(&queue->pending) != 0 || atomic_get(&queue->head) != 0;
}

// True: no page is announced, and no block is kept. Any thread; likewise.
KEEL_INLINE bool remote_queue_is_empty(const struct remote_queue* queue) {
    return !remote_queue_has_announced(queue) && atomic_get(&queue->kept_first) == 0;
}

#endif

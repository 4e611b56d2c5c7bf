#include "allocator/heap/remote_queue.h"
#include "base/panic.h"

bool remote_queue_announce(struct remote_queue* queue, struct block* first) {
    KEEL_ASSERT(first != NULL);
    uintptr_t before = atomic_get(&queue->head);
    do {
        block_set_next(first, (struct block*)before);
    } while (!atomic_try_word(&queue->head, &before, (uintptr_t)first));
    return before == 0;
}

// The consumer will soon read the block and all three parts of the page's metadata.
static void prefetch_announced(const struct block* block) {
    const struct page* page = page_of(block);
    KEEL_PREFETCH(block);
    KEEL_PREFETCH(page);
    KEEL_PREFETCH(page_use(page));
    KEEL_PREFETCH(page_remote(page));
}

struct page* remote_queue_take(struct remote_queue* queue, struct block_list* list) {
    KEEL_ASSERT(atomic_get(&queue->taken) != 0);
    uintptr_t first = atomic_get(&queue->pending);
    if (first == 0) {
        if (atomic_get(&queue->head) == 0) return NULL;
        first = atomic_swap(&queue->head, 0);
    }
    struct block* tail = (struct block*)first;
    block_require_free(tail);
    struct block* next = block_next(tail);
    atomic_set(&queue->pending, (uintptr_t)next);
    if (next != NULL) prefetch_announced(next);
    struct page* page = page_of_block(tail);
    *list = (struct block_list){atomic_swap(&page_remote(page)->list, 0), tail};
    KEEL_ASSERT(list_count(list->word) > 0 && page_of_block(list_head(list->word)) == page);
    block_require_free(list_head(list->word));
    return page;
}

// --- Kept lists ----------------------------------------------------------------------------------

static void kept_append(struct remote_queue* queue, struct page* page) {
    KEEL_ASSERT(atomic_get(&queue->taken) != 0);
    struct page_remote* remote = page_remote(page);
    bool first = atomic_get(&queue->kept_first) == 0;
    remote->kept_next = NULL;
    remote->kept_prev = first ? NULL : queue->kept_last;
    if (first)
        atomic_set(&queue->kept_first, (uintptr_t)page);
    else
        page_remote(queue->kept_last)->kept_next = page;
    queue->kept_last = page;
    atomic_set(&queue->kept_count, atomic_get(&queue->kept_count) + 1);
}

static void kept_remove(struct remote_queue* queue, struct page* page) {
    KEEL_ASSERT(atomic_get(&queue->kept_count) > 0 && page_remote(page)->kept_count > 0);
    const struct page_remote* remote = page_remote(page);
    if (remote->kept_prev != NULL)
        page_remote(remote->kept_prev)->kept_next = remote->kept_next;
    else
        atomic_set(&queue->kept_first, (uintptr_t)remote->kept_next);
    if (remote->kept_next != NULL)
        page_remote(remote->kept_next)->kept_prev = remote->kept_prev;
    else
        queue->kept_last = remote->kept_prev;
    atomic_set(&queue->kept_count, atomic_get(&queue->kept_count) - 1);
}

void remote_queue_keep(struct remote_queue* queue, struct page* page, struct block_list list) {
    KEEL_ASSERT(list_count(list.word) > 0 && list.tail != NULL);
    struct page_remote* remote = page_remote(page);
    if (remote->kept_count == 0) {
        kept_append(queue, page);
        remote->kept_tail = list.tail;
    } else {
        block_set_next(list.tail, remote->kept_head);
    }
    remote->kept_head = list_head(list.word);
    remote->kept_count += list_count(list.word);
}

struct page* remote_queue_next_kept(struct remote_queue* queue) {
    KEEL_ASSERT(atomic_get(&queue->kept_first) != 0);
    struct page* page = (struct page*)atomic_get(&queue->kept_first);
    kept_remove(queue, page);
    kept_append(queue, page);
    return page;
}

struct block_list remote_queue_take_kept(struct remote_queue* queue, struct page* page) {
    KEEL_ASSERT(page_remote(page)->kept_count > 0);
    struct page_remote* remote = page_remote(page);
    struct block_list list = {list_word(remote->kept_head, remote->kept_count), remote->kept_tail};
    kept_remove(queue, page);
    remote->kept_count = 0;
    return list;
}

// --- Fork ----------------------------------------------------------------------------------------

struct block* remote_list_last(uintptr_t list) {
    KEEL_ASSERT(list_count(list) > 0);
    struct block* block = list_head(list);
    for (uint32_t i = list_count(list); i > 1; i--) block = block_next(block);
    return block;
}

static bool contains(uintptr_t first, const struct page* page) {
    for (const struct block* block = (const struct block*)first; block != NULL;
         block = block_next(block)) {
        if (page_of_block(block) == page) return true;
    }
    return false;
}

bool remote_queue_contains(const struct remote_queue* queue, const struct page* page) {
    return contains(atomic_get(&queue->pending), page) || contains(atomic_get(&queue->head), page);
}

bool remote_queue_check(const struct remote_queue* queue) {
    if (!KEEL_CHECKS) return true;
    uint32_t count = 0;
    const struct page* before = NULL;
    const struct page* page = (const struct page*)atomic_get(&queue->kept_first);
    for (; page != NULL; page = page_remote(page)->kept_next) {
        const struct page_remote* remote = page_remote(page);
        if (remote->kept_count == 0 || remote->kept_prev != before) return false;
        if (page_use(page)->used < remote->kept_count) return false; // they count as used
        before = page;
        count++;
    }
    bool ends = before == NULL || queue->kept_last == before;
    return ends && count == atomic_get(&queue->kept_count) && atomic_get(&queue->taken) == 0;
}

#include "allocator/alloc/shared.h"
#include "allocator/arena/region.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/memory.h"
#include <string.h>

#define SHARED_STRIDE ((sizeof(struct shared) + HEAP_SPACING - 1) & ~(HEAP_SPACING - 1))
#define SHARED_AT_ONCE 8u

_Static_assert(offsetof(struct shared, heap) == 0, "the one's address is the other's");

static struct {
    struct os_lock lock; // before any heap's lock
    struct shared* free;
    atomic_word all; // newest; linked by next_all
} pool;

struct shared* shared_first(void) {
    return (struct shared*)atomic_get_acquire(&pool.all);
}

static void pool_add(char* mapping) {
    for (unsigned i = 0; i < SHARED_AT_ONCE; i++) {
        struct shared* shared = (struct shared*)(mapping + HEAP_SHARED + i * SHARED_STRIDE);
        shared->next_free = pool.free;
        pool.free = shared;
        shared->next_all = (struct shared*)atomic_get(&pool.all);
        atomic_set_release(&pool.all, (uintptr_t)shared);
    }
}

static void pool_fill(void) {
    size_t bytes = round_up(HEAP_SHARED + SHARED_AT_ONCE * SHARED_STRIDE, os_page_bytes());
    char* mapping = os_map(bytes, os_page_bytes());
    if (mapping == NULL) return;
    os_lock_acquire(&pool.lock);
    pool_add(mapping);
    os_lock_release(&pool.lock);
}

static struct shared* pool_take(void) {
    os_lock_acquire(&pool.lock);
    struct shared* shared = pool.free;
    if (shared != NULL) pool.free = shared->next_free;
    os_lock_release(&pool.lock);
    return shared;
}

struct shared* shared_make(enum shared_kind kind) {
    struct shared* shared = pool_take();
    if (shared == NULL) {
        pool_fill();
        shared = pool_take();
        if (shared == NULL) return NULL;
    }
    os_lock_acquire(&shared->lock); // a free that came too late may just look at it
    shared->kind = kind;
    os_lock_release(&shared->lock);
    return shared;
}

atomic_bits shared_given_before[CLASS_COUNT];
atomic_bits shared_counts_before[HEAP_COUNTS];
atomic_bits shared_large_before[LARGE_ROWS];

static void keep_counts(const struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        uint64_t given = atomic_get(&heap->given[c]);
        if (given != 0) (void)atomic_add(&shared_given_before[c], given);
    }
    for (unsigned i = 0; i < LARGE_ROWS; i++) {
        uint64_t given = atomic_get(&heap->large_given[i]);
        if (given != 0) (void)atomic_add(&shared_large_before[i], given);
    }
    for (unsigned i = 0; i < HEAP_COUNTS; i++)
        (void)atomic_add(&shared_counts_before[i], atomic_get(&heap->counts[i]));
}

void shared_recycle(struct shared* shared) {
    os_lock_acquire(&shared->lock);
    keep_counts(&shared->heap);
    struct region* region = shared->heap.region;
    memset(&shared->heap, 0, sizeof shared->heap);
    if (shared->pages != NULL)
        memset(shared->pages, 0, shared->pages_capacity * sizeof *shared->pages);
    shared->pages_count = 0;
    shared->large_count = 0;
    shared->inner = false;
    shared->kind = SHARED_FREE;
    os_lock_release(&shared->lock);
    if (region != NULL) region_unbind(region);
    os_lock_acquire(&pool.lock);
    shared->next_free = pool.free;
    pool.free = shared;
    os_lock_release(&pool.lock);
}

size_t shared_offset(const struct page* page, const void* address) {
    size_t offset = (size_t)((const char*)address - page->start);
    return page->block_bytes != 0 ? offset % page->block_bytes : offset;
}

// A small block comes home, as free_local and free_look have it for a thread's heap. True: a page went to the arena.
static bool small_free(struct heap* heap, struct page* page, char* block) {
    if (!page_begins_block(page, block)) panic(FAULT_FREE_MISALIGNED, block);
    KEEL_REQUIRE(page_use(page)->until_look > 0, block);
    if (!page_push(page, block)) return false;
    if (page_list(page) != PAGE_FULL) return heap_page_emptied(heap, page);
    heap_page_not_full(heap, page, 1);
    return false; // a page has more than one block
}

enum shared_verdict shared_free(struct page* page, void* address) {
    struct heap* heap = page_heap(atomic_get(&page->owner));
    struct shared* shared = shared_of(heap);
    enum shared_verdict verdict = SHARED_FREED;
    os_lock_acquire(&shared->lock);
    uintptr_t owner = atomic_get(&page->owner);
    if (page_heap(owner) != heap) {
        os_lock_release(&shared->lock);
        return SHARED_MOVED;
    }
    size_t offset = shared_offset(page, address);
    if (offset != 0 && !shared->inner) panic(FAULT_FREE_MISALIGNED, address);
    if ((owner & (PAGE_LARGE | PAGE_JUMBO)) != 0) {
        atomic_set(&page->owner, owner & PAGE_FLAGS);
        shared->large_count--;
        heap_unhold(heap, page->bytes);
        verdict = SHARED_LARGE;
    } else if (small_free(heap, page, (char*)address - offset)) {
        verdict = SHARED_PAGE_ENDED;
    }
    bool ended = shared->kind == SHARED_DELETED && shared->large_count == 0 &&
                 shared_pages_live(shared) == 0;
    if (ended) heap_release_empty(heap);
    os_lock_release(&shared->lock);
    if (ended) shared_recycle(shared);
    return verdict;
}

// The list only grows at its head, and its lock keeps it from growing meanwhile.
void shared_before_fork(void) {
    os_lock_acquire(&pool.lock);
    for (struct shared* each = shared_first(); each != NULL; each = each->next_all)
        os_lock_acquire(&each->lock);
}

void shared_after_fork(void) {
    for (struct shared* each = shared_first(); each != NULL; each = each->next_all)
        os_lock_release(&each->lock);
    os_lock_release(&pool.lock);
}

#include "allocator/alloc/user_heap.h"
#include "allocator/heap/bin.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/large/large.h"
#include "allocator/space/arena.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/memory.h"
#include <string.h>

#define USER_HEAP_STRIDE ((sizeof(struct user_heap) + HEAP_SPACING - 1) & ~(HEAP_SPACING - 1))
#define USER_HEAPS_AT_ONCE 8u

_Static_assert(offsetof(struct user_heap, heap) == 0, "both have the same address");

static struct {
    struct os_lock lock; // before any heap's lock
    struct user_heap* free;
    atomic_word all; // newest; linked by next_all
} pool;

struct user_heap* user_heap_first(void) {
    return (struct user_heap*)atomic_get_acquire(&pool.all);
}

static void pool_add(char* mapping) {
    KEEL_ASSERT(atomic_get(&pool.lock.state) != 0);
    for (unsigned i = 0; i < USER_HEAPS_AT_ONCE; i++) {
        struct user_heap* user = (struct user_heap*)(mapping + HEAP_USER + i * USER_HEAP_STRIDE);
        os_lock_init(&user->lock);
        KEEL_ASSERT(((uintptr_t)user & HEAP_USER) != 0 && user->kind == USER_HEAP_UNUSED);
        user->next_free = pool.free;
        pool.free = user;
        user->next_all = (struct user_heap*)atomic_get(&pool.all);
        atomic_set_release(&pool.all, (uintptr_t)user);
    }
}

static void pool_fill(void) {
    size_t bytes = round_up(HEAP_USER + USER_HEAPS_AT_ONCE * USER_HEAP_STRIDE, os_page_bytes());
    char* mapping = os_map_metadata(bytes);
    if (mapping == NULL) return;
    os_lock_acquire(&pool.lock);
    pool_add(mapping);
    os_lock_release(&pool.lock);
}

static struct user_heap* pool_take(void) {
    os_lock_acquire(&pool.lock);
    struct user_heap* user = pool.free;
    if (user != NULL) pool.free = user->next_free;
    os_lock_release(&pool.lock);
    return user;
}

struct user_heap* user_heap_make(enum user_heap_kind kind) {
    KEEL_ASSERT(kind == USER_HEAP_LIVE || kind == USER_HEAP_REDIRECT);
    struct user_heap* user = pool_take();
    if (user == NULL) {
        pool_fill();
        user = pool_take();
        if (user == NULL) return NULL;
    }
    os_lock_acquire(&user->lock); // a free that began earlier may be reading it
    KEEL_ASSERT(user->kind == USER_HEAP_UNUSED && user->pages_count == 0);
    user->kind = kind;
    heap_prepare_bins(&user->heap);
    os_lock_release(&user->lock);
    return user;
}

atomic_bits user_heap_given_before[SIZE_COUNT];
atomic_bits user_heap_counts_before[HEAP_COUNTS];
atomic_bits user_heap_large_before[LARGE_ROWS];

static void keep_counts(const struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        uint64_t given = atomic_get(&heap->given[c]);
        if (given != 0) (void)atomic_add(&user_heap_given_before[class_size(c)], given);
    }
    for (unsigned i = 0; i < LARGE_ROWS; i++) {
        uint64_t given = atomic_get(&heap->large_given[i]);
        if (given != 0) (void)atomic_add(&user_heap_large_before[i], given);
    }
    for (unsigned i = 0; i < HEAP_COUNTS; i++)
        (void)atomic_add(&user_heap_counts_before[i], atomic_get(&heap->counts[i]));
}

void user_heap_recycle(struct user_heap* user) {
    KEEL_ASSERT(user->kind != USER_HEAP_UNUSED);
    os_lock_acquire(&user->lock);
    keep_counts(&user->heap);
    struct arena* arena = user->heap.arena;
    // What is left in the slots is never read: the bins are empty.
    memset(&user->heap, 0, offsetof(struct heap, slots));
    if (user->pages != NULL) memset(user->pages, 0, user->pages_capacity * sizeof *user->pages);
    user->pages_count = 0;
    user->large_count = 0;
    user->inner = false;
    user->kind = USER_HEAP_UNUSED;
    os_lock_release(&user->lock);
    if (arena != NULL) arena_unbind(arena);
    os_lock_acquire(&pool.lock);
    user->next_free = pool.free;
    pool.free = user;
    os_lock_release(&pool.lock);
}

size_t user_block_offset(const struct page* page, const void* address) {
    size_t offset = (size_t)((const char*)address_untagged(address) - page->start);
    return page->block_bytes != 0 ? offset % page->block_bytes : offset;
}

// Returns a small block to its page, as free_local does for a thread's heap. True: the page was
// released.
static bool small_free(struct heap* heap, struct page* page, char* block) {
    if (KEEL_SECURE)
        block_free(page, block, state_mark(atomic_get(&thread_heap->thread_id)));
    else if (!page_begins_block(page, block))
        panic(FAULT_FREE_MISALIGNED, block);
    KEEL_REQUIRE(page_use(page)->used > 0, block);
    bool empty = page_push(page, block);
    if (page_is_full(page)) {
        heap_page_not_full(heap, page);
        return false;
    }
    return empty && heap_page_emptied(heap, page);
}

enum user_free_result user_heap_free(struct page* page, void* address) {
    struct heap* heap = page_heap(atomic_get(&page->owner));
    struct user_heap* user = user_heap_of(heap);
    enum user_free_result verdict = USER_FREE_DONE;
    os_lock_acquire(&user->lock);
    uintptr_t owner = atomic_get(&page->owner);
    if (page_heap(owner) != heap) {
        os_lock_release(&user->lock);
        return USER_FREE_RETRY;
    }
    size_t offset = user_block_offset(page, address);
    if (offset != 0 && !user->inner) panic(FAULT_FREE_MISALIGNED, address);
    if ((owner & (PAGE_LARGE | PAGE_JUMBO)) != 0) {
        large_verify(page);
        atomic_set(&page->owner, owner & PAGE_FLAGS);
        KEEL_ASSERT(user->large_count > 0);
        user->large_count--;
        heap_unhold(heap, page->bytes);
        verdict = USER_FREE_LARGE;
    } else if (small_free(heap, page, (char*)address - offset)) {
        verdict = USER_FREE_PAGE_ENDED;
    }
    bool ended = user->kind == USER_HEAP_DELETED && user->large_count == 0 &&
                 user_heap_pages_live(user) == 0;
    if (ended) heap_release_kept(heap);
    os_lock_release(&user->lock);
    if (ended) user_heap_recycle(user);
    return verdict;
}

// The list grows only at its head. The pool's lock prevents this until user_heap_after_fork.
void user_heap_before_fork(void) {
    os_lock_acquire(&pool.lock);
    for (struct user_heap* each = user_heap_first(); each != NULL; each = each->next_all)
        os_lock_acquire(&each->lock);
}

void user_heap_after_fork(void) {
    for (struct user_heap* each = user_heap_first(); each != NULL; each = each->next_all)
        os_lock_release(&each->lock);
    os_lock_release(&pool.lock);
}

void user_heap_repair_in_child(void) {
    for (struct user_heap* each = user_heap_first(); each != NULL; each = each->next_all)
        remote_batch_repair(&each->heap);
}

static bool one_check(struct user_heap* user) {
    size_t count = 0;
    if (user->kind == USER_HEAP_UNUSED || user->kind == USER_HEAP_REDIRECT) return true;
    for (size_t i = 0; i < user->pages_capacity; i++) count += user->pages[i] != NULL;
    return count == user->pages_count && count <= user->pages_capacity && heap_check(&user->heap) &&
           user_heap_pages_live(user) <= count;
}

bool user_heap_check(void) {
    if (!KEEL_CHECKS) return true;
    for (struct user_heap* user = user_heap_first(); user != NULL; user = user->next_all)
        if (!one_check(user)) return false;
    return true;
}

#include "allocator/alloc/user_heap.h"
#include "allocator/alloc/alloc.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/large/large.h"
#include "allocator/space/arena.h"
#include "allocator/space/run.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/panic.h"
#include "os/memory.h"

#define PAGES_MAPPED 512u // entries of the smallest table that is a mapping

// --- The set of pages ----------------------------------------------------------------------------

static bool is_page_of(struct user_heap* user, const struct page* page) {
    if (page == NULL) return false;
    uintptr_t owner = atomic_get(&page->owner);
    return page_heap(owner) == &user->heap && (owner & PAGE_INTERIOR) == 0;
}

static void pages_insert(struct user_heap* user, struct page* page) {
    KEEL_ASSERT(is_power_of_two(user->pages_capacity) && user->pages_count < user->pages_capacity);
    size_t mask = user->pages_capacity - 1;
    size_t at = (size_t)(((uintptr_t)page * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & mask;
    for (; user->pages[at] != NULL; at = (at + 1) & mask) {
        if (user->pages[at] == page) return;
    }
    user->pages[at] = page;
    user->pages_count++;
}

static size_t table_bytes(size_t capacity) {
    KEEL_ASSERT(is_power_of_two(capacity));
    return round_up(capacity * sizeof(struct page*), os_page_bytes());
}

// Makes room for one more page. Pages that the heap no longer has are dropped when the table grows.
static bool pages_reserve(struct user_heap* user) {
    KEEL_ASSERT(user->pages_count <= user->pages_capacity);
    if ((user->pages_count + 1) * 4 <= user->pages_capacity * 3) return true;
    struct page** old = user->pages;
    size_t old_capacity = user->pages_capacity;
    size_t live = 0;
    for (size_t i = 0; i < old_capacity; i++) live += is_page_of(user, old[i]);
    size_t capacity = old == NULL ? USER_HEAP_PAGES_FIRST : PAGES_MAPPED;
    while (capacity < live * 3) capacity *= 2;

    struct page** pages =
        old == NULL ? user->first_pages : os_map(table_bytes(capacity), os_page_bytes());
    if (pages == NULL) return false;
    user->pages = pages;
    user->pages_capacity = capacity;
    user->pages_count = 0;
    for (size_t i = 0; i < old_capacity; i++) {
        if (is_page_of(user, old[i])) pages_insert(user, old[i]);
    }
    if (old != NULL && old != user->first_pages) os_unmap(old, table_bytes(old_capacity));
    return true;
}

// --- Allocation ----------------------------------------------------------------------------------

// Allocates a block with additional bytes for those that the alignment may skip. A block above
// 64 KiB begins at the start of a slice. Therefore the returned address is in the slice that has
// the block's metadata.
static void* take_inner(struct request request) {
    KEEL_ASSERT(request.alignment > 1 && is_power_of_two(request.alignment));
    if (request.size > KEEL_SIZE_MAX - request.alignment) return NULL;
    size_t size = request.size + request.alignment - 1;
    size_t alignment = size > REQUEST_CLASS_MAX ? SLICE_BYTES : 1;
    char* block = alloc_plain(size, alignment, request.zero);
    if (block == NULL) return NULL;
    uintptr_t beyond = ((uintptr_t)block + request.offset) & (request.alignment - 1);
    return beyond == 0 ? block : block + (request.alignment - beyond);
}

static void record_page(struct user_heap* user, void* block) {
    KEEL_ASSERT(block != NULL && atomic_get(&user->lock.state) != 0);
    struct page* page = page_around(block);
    if (page_is_large(page)) {
        user->large_count++;
        heap_hold(&user->heap, page->bytes);
    }
    pages_insert(user, page);
}

void* user_heap_allocate(struct user_heap* user, struct request request) {
    KEEL_ASSERT(request.alignment == 0 || is_power_of_two(request.alignment));
    bool inner = request.alignment > 1 && (request.offset & (request.alignment - 1)) != 0;
    if (request.size > KEEL_SIZE_MAX || (inner && request.alignment > SLICE_BYTES)) return NULL;
    os_lock_acquire(&user->lock);
    // The addresses of an arena are not divided between the partitions.
    unsigned partition = partition_enter(user->heap.arena == NULL ? partition_now() : 0);
    struct heap* before = thread_heap;
    thread_heap = &user->heap;
    void* block = request.alignment <= 1 && !request.zero
                      ? alloc_hit_in(request.size, partition_now())
                      : NULL;
    thread_heap = before;
    if (block == NULL && pages_reserve(user)) {
        user->inner = user->inner || inner;
        user->heap.no_guards = user->inner;
        thread_heap = &user->heap;
        block = inner ? take_inner(request)
                      : alloc_plain(request.size, request.alignment, request.zero);
        thread_heap = before;
        if (block != NULL) record_page(user, block);
    }
    partition_leave(partition);
    os_lock_release(&user->lock);
    return block;
}

// --- Lifetime ------------------------------------------------------------------------------------

struct user_heap* user_heap_new(struct arena* arena, size_t limit_bytes) {
    if (arena != NULL && !arena_bind(arena)) return NULL;
    struct user_heap* user = user_heap_make(USER_HEAP_LIVE);
    if (user != NULL) {
        user->heap.arena = arena;
        user->heap.limit_bytes = limit_bytes;
    } else if (arena != NULL) {
        arena_unbind(arena);
    }
    return user;
}

size_t user_heap_set_limit(struct user_heap* user, size_t bytes) {
    os_lock_acquire(&user->lock);
    size_t before = user->heap.limit_bytes;
    user->heap.limit_bytes = bytes;
    os_lock_release(&user->lock);
    return before;
}

// After this call no page is current. Each page that was current is now released, queued, or full.
static void retire_currents(struct heap* heap) {
    KEEL_ASSERT(((uintptr_t)heap & HEAP_USER) != 0);
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        struct page* page = heap->current[c];
        if (page == NULL) continue;
        (void)heap_flush_bin(heap, c, UINT32_MAX);
        uint32_t used = page_use(page)->used;
        if (used == page->capacity) {
            heap_retire_current(heap, c);
            continue;
        }
        heap->current[c] = NULL;
        page_set_list(page, PAGE_UNLISTED);
        if (used == 0)
            (void)heap_page_emptied(heap, page);
        else
            heap_page_not_full(heap, page);
    }
    heap_release_kept(heap);
}

void user_heap_collect(struct user_heap* user) {
    os_lock_acquire(&user->lock);
    retire_currents(&user->heap);
    os_lock_release(&user->lock);
    alloc_quantum();
}

static void drop_default(struct user_heap* user) {
    if (user_heap_default() == user) (void)user_heap_set_default(NULL);
}

void user_heap_delete(struct user_heap* user) {
    drop_default(user);
    os_lock_acquire(&user->lock);
    retire_currents(&user->heap);
    bool ended = user->large_count == 0 && user_heap_pages_live(user) == 0;
    user->kind = USER_HEAP_DELETED;
    os_lock_release(&user->lock);
    if (ended) user_heap_recycle(user);
    alloc_quantum();
}

static void page_destroy(struct page* page) {
    KEEL_ASSERT(page_is_in_user_heap(page));
    if (page_is_guarded(page)) {
        guarded_free(page);
        return;
    }
    if (page_is_large(page)) {
        atomic_set(&page->owner, atomic_get(&page->owner) & PAGE_FLAGS);
        large_release(page);
        return;
    }
    page_forget_blocks(page);
    page_release(page);
}

void user_heap_destroy(struct user_heap* user) {
    drop_default(user);
    os_lock_acquire(&user->lock);
    for (unsigned c = 0; c < CLASS_COUNT; c++) (void)heap_flush_bin(&user->heap, c, UINT32_MAX);
    for (size_t i = 0; i < user->pages_capacity; i++) {
        if (is_page_of(user, user->pages[i])) page_destroy(user->pages[i]);
    }
    heap_release_kept(&user->heap);
    os_lock_release(&user->lock);
    user_heap_recycle(user);
    alloc_quantum();
}

// --- Queries -------------------------------------------------------------------------------

struct user_heap* block_user_heap(const void* block) {
    const struct page* page = page_around(block);
    return page_is_in_user_heap(page) ? user_heap_of(page_heap(atomic_get(&page->owner))) : NULL;
}

bool user_heap_owns(struct user_heap* user, const void* address) {
    struct page* page = page_around(address);
    os_lock_acquire(&user->lock);
    bool owns = is_page_of(user, page);
    if (owns && !page_is_large(page))
        owns = (size_t)((const char*)address_untagged(address) - page->start) <
               (size_t)page_use(page)->carved * page->block_bytes;
    os_lock_release(&user->lock);
    return owns;
}

bool user_heap_visit(struct user_heap* user, bool blocks, page_visitor* visit, void* context) {
    bool more = true;
    struct heap* before = own_heap_enter(); // the visitor allocates from another heap
    os_lock_acquire(&user->lock);
    for (size_t i = 0; more && i < user->pages_capacity; i++) {
        struct page* page = user->pages[i];
        if (!is_page_of(user, page)) continue;
        more = page_visit(&user->heap, page, blocks, visit, context);
    }
    os_lock_release(&user->lock);
    own_heap_leave(before);
    return more;
}

// --- The thread's default ------------------------------------------------------------------------

struct user_heap* user_heap_default(void) {
    return thread_heap_is_redirect() ? user_heap_of(thread_heap)->target : NULL;
}

struct heap* own_heap(void) {
    struct heap* own = thread_heap_is_redirect() ? user_heap_of(thread_heap)->own : thread_heap;
    return heap_is_real(own) ? own : NULL;
}

struct heap* own_heap_enter(void) {
    struct heap* before = thread_heap;
    if (thread_heap_is_redirect()) thread_heap = user_heap_of(before)->own;
    return before;
}

void own_heap_leave(struct heap* before) {
    if (((uintptr_t)before & HEAP_USER) != 0) thread_heap = before;
}

bool user_heap_set_default(struct user_heap* user) {
    if (thread_heap_is_redirect()) {
        struct user_heap* redirect = user_heap_of(thread_heap);
        redirect->target = user;
        if (user != NULL) return true;
        thread_heap = redirect->own;
        remote_batch_flush(&redirect->heap);
        user_heap_recycle(redirect);
        return true;
    }
    if (user == NULL) return true;
    if (heap_acquire() == NULL) return false;
    struct user_heap* redirect = user_heap_make(USER_HEAP_REDIRECT);
    if (redirect == NULL) return false;
    redirect->own = thread_heap;
    redirect->target = user;
    thread_heap = &redirect->heap;
    return true;
}

#include "allocator/alloc/first_class.h"
#include "allocator/alloc/alloc.h"
#include "allocator/arena/region.h"
#include "allocator/arena/run.h"
#include "allocator/heap/batch.h"
#include "allocator/page/large.h"
#include "base/bits.h"
#include "base/checked.h"
#include "os/memory.h"

#define PAGES_MAPPED 512u // entries of the smallest table that is a mapping

// --- The set of pages ----------------------------------------------------------------------------

static bool is_page_of(struct shared* shared, const struct page* page) {
    if (page == NULL) return false;
    uintptr_t owner = atomic_get(&page->owner);
    return page_heap(owner) == &shared->heap && (owner & PAGE_INTERIOR) == 0;
}

static void pages_insert(struct shared* shared, struct page* page) {
    size_t mask = shared->pages_capacity - 1;
    size_t at = (size_t)(((uintptr_t)page * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & mask;
    for (; shared->pages[at] != NULL; at = (at + 1) & mask) {
        if (shared->pages[at] == page) return;
    }
    shared->pages[at] = page;
    shared->pages_count++;
}

static size_t table_bytes(size_t capacity) {
    return round_up(capacity * sizeof(struct page*), os_page_bytes());
}

// Room for one page more. What has ceased to be a page of the heap is left behind when the table grows.
static bool pages_reserve(struct shared* shared) {
    if ((shared->pages_count + 1) * 4 <= shared->pages_capacity * 3) return true;
    struct page** old = shared->pages;
    size_t old_capacity = shared->pages_capacity;
    size_t live = 0;
    for (size_t i = 0; i < old_capacity; i++) live += is_page_of(shared, old[i]);
    size_t capacity = old == NULL ? SHARED_PAGES_FIRST : PAGES_MAPPED;
    while (capacity < live * 3) capacity *= 2;

    struct page** pages =
        old == NULL ? shared->first_pages : os_map(table_bytes(capacity), os_page_bytes());
    if (pages == NULL) return false;
    shared->pages = pages;
    shared->pages_capacity = capacity;
    shared->pages_count = 0;
    for (size_t i = 0; i < old_capacity; i++) {
        if (is_page_of(shared, old[i])) pages_insert(shared, old[i]);
    }
    if (old != NULL && old != shared->first_pages) os_unmap(old, table_bytes(old_capacity));
    return true;
}

// --- Allocation ----------------------------------------------------------------------------------

// From a block that is larger by what the place inside may take. Above 64 KiB it begins at a slice,
// so that the place is in the slice that has the block's metadata.
static void* take_inner(struct request request) {
    if (request.size > KEEL_SIZE_MAX - request.alignment) return NULL;
    size_t size = request.size + request.alignment - 1;
    size_t alignment = size > CLASS_BYTES_MAX ? SLICE_BYTES : 1;
    char* block = alloc_plain(size, alignment, request.zero);
    if (block == NULL) return NULL;
    uintptr_t beyond = ((uintptr_t)block + request.offset) & (request.alignment - 1);
    return beyond == 0 ? block : block + (request.alignment - beyond);
}

static void note_page(struct shared* shared, void* block) {
    struct page* page = page_around(block);
    if (page_is_large(page)) {
        shared->large_count++;
        heap_hold(&shared->heap, page->bytes);
    }
    pages_insert(shared, page);
}

void* first_class_allocate(struct shared* shared, struct request request) {
    bool inner = request.alignment > 1 && (request.offset & (request.alignment - 1)) != 0;
    if (request.size > KEEL_SIZE_MAX || (inner && request.alignment > SLICE_BYTES)) return NULL;
    os_lock_acquire(&shared->lock);
    struct heap* before = thread_heap;
    thread_heap = &shared->heap;
    void* block = request.alignment <= 1 && !request.zero ? alloc_hit(request.size) : NULL;
    thread_heap = before;
    if (block == NULL && pages_reserve(shared)) {
        shared->inner = shared->inner || inner;
        thread_heap = &shared->heap;
        block = inner ? take_inner(request)
                      : alloc_plain(request.size, request.alignment, request.zero);
        thread_heap = before;
        if (block != NULL) note_page(shared, block);
    }
    os_lock_release(&shared->lock);
    return block;
}

// --- Life ----------------------------------------------------------------------------------------

struct shared* first_class_new(struct region* region, size_t limit_bytes) {
    if (region != NULL && !region_bind(region)) return NULL;
    struct shared* shared = shared_make(SHARED_HEAP);
    if (shared != NULL) {
        shared->heap.region = region;
        shared->heap.limit_bytes = limit_bytes;
    } else if (region != NULL) {
        region_unbind(region);
    }
    return shared;
}

size_t first_class_limit(struct shared* shared, size_t bytes) {
    os_lock_acquire(&shared->lock);
    size_t before = shared->heap.limit_bytes;
    shared->heap.limit_bytes = bytes;
    os_lock_release(&shared->lock);
    return before;
}

// No page is current any more: each is let go, or waits in its queue, or is full.
static void settle(struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        struct page* page = heap->current[c];
        if (page == NULL) continue;
        (void)heap_flush_bin(heap, c, UINT32_MAX);
        uint32_t used = page_used(page);
        if (used == page->capacity) {
            heap_retire_current(heap, c);
            continue;
        }
        heap->current[c] = NULL;
        page_set_list(page, PAGE_UNLISTED);
        if (used == 0)
            (void)heap_page_emptied(heap, page);
        else
            heap_page_not_full(heap, page, page->capacity - used);
    }
    heap_release_empty(heap);
}

void first_class_collect(struct shared* shared) {
    os_lock_acquire(&shared->lock);
    settle(&shared->heap);
    os_lock_release(&shared->lock);
    alloc_quantum();
}

static void drop_default(struct shared* shared) {
    if (first_class_default() == shared) (void)first_class_set_default(NULL);
}

void first_class_delete(struct shared* shared) {
    drop_default(shared);
    os_lock_acquire(&shared->lock);
    settle(&shared->heap);
    bool ended = shared->large_count == 0 && shared_pages_live(shared) == 0;
    shared->kind = SHARED_DELETED;
    os_lock_release(&shared->lock);
    if (ended) shared_recycle(shared);
    alloc_quantum();
}

static void page_destroy(struct page* page) {
    if (page_is_large(page)) {
        atomic_set(&page->owner, atomic_get(&page->owner) & PAGE_FLAGS);
        large_release(page);
        return;
    }
    char* start = page->start;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    page_end(page);
    run_release(start, slices);
}

void first_class_destroy(struct shared* shared) {
    drop_default(shared);
    os_lock_acquire(&shared->lock);
    for (unsigned c = 0; c < CLASS_COUNT; c++) (void)heap_flush_bin(&shared->heap, c, UINT32_MAX);
    for (size_t i = 0; i < shared->pages_capacity; i++) {
        if (is_page_of(shared, shared->pages[i])) page_destroy(shared->pages[i]);
    }
    heap_release_empty(&shared->heap);
    os_lock_release(&shared->lock);
    shared_recycle(shared);
    alloc_quantum();
}

// --- Looking at it -------------------------------------------------------------------------------

struct shared* block_first_class(const void* block) {
    const struct page* page = page_around(block);
    return page_is_shared(page) ? shared_of(page_heap(atomic_get(&page->owner))) : NULL;
}

bool first_class_owns(struct shared* shared, const void* address) {
    struct page* page = page_around(address);
    os_lock_acquire(&shared->lock);
    bool owns = is_page_of(shared, page);
    if (owns && !page_is_large(page))
        owns = (size_t)((const char*)address - page->start) <
               (size_t)page_use(page)->carved * page->block_bytes;
    os_lock_release(&shared->lock);
    return owns;
}

bool first_class_visit(struct shared* shared, bool blocks, area_visitor* visit, void* context) {
    bool more = true;
    struct heap* before =
        first_class_own_enter(); // what the visitor allocates is not from this heap
    os_lock_acquire(&shared->lock);
    for (size_t i = 0; more && i < shared->pages_capacity; i++) {
        struct page* page = shared->pages[i];
        if (!is_page_of(shared, page)) continue;
        more = area_visit(&shared->heap, page, blocks, visit, context);
    }
    os_lock_release(&shared->lock);
    first_class_own_leave(before);
    return more;
}

// --- The thread's default ------------------------------------------------------------------------

struct shared* first_class_default(void) {
    return first_class_diverts() ? shared_of(thread_heap)->target : NULL;
}

struct heap* first_class_own(void) {
    struct heap* own = first_class_diverts() ? shared_of(thread_heap)->own : thread_heap;
    return heap_is_real(own) ? own : NULL;
}

struct heap* first_class_own_enter(void) {
    struct heap* before = thread_heap;
    if (first_class_diverts()) thread_heap = shared_of(before)->own;
    return before;
}

void first_class_own_leave(struct heap* before) {
    if (((uintptr_t)before & HEAP_SHARED) != 0) thread_heap = before;
}

bool first_class_set_default(struct shared* shared) {
    if (first_class_diverts()) {
        struct shared* redirect = shared_of(thread_heap);
        redirect->target = shared;
        if (shared != NULL) return true;
        thread_heap = redirect->own;
        batch_flush(&redirect->heap);
        shared_recycle(redirect);
        return true;
    }
    if (shared == NULL) return true;
    if (heap_acquire() == NULL) return false;
    struct shared* redirect = shared_make(SHARED_REDIRECT);
    if (redirect == NULL) return false;
    redirect->own = thread_heap;
    redirect->target = shared;
    thread_heap = &redirect->heap;
    return true;
}

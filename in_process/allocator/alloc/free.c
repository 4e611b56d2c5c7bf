#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/large/large.h"
#include "allocator/page/empty_block.h"
#include "allocator/space/arena.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/panic.h"

void free_page_emptied(struct page* page) {
    KEEL_ASSERT(page_use(page)->used == 0);
    if (page_list(page) == PAGE_CURRENT) return;
    struct heap* heap = page_heap(atomic_get(&page->owner));
    uint64_t begun = cycles_now();
    if (heap_page_emptied(heap, page)) alloc_quantum();
    reclaim_unused_classes(heap, true);
    slow_path_note(&heap->slow_paths, SLOW_PATH_PAGE_EMPTIED, begun);
}

void free_into_full_queue(struct page* page) {
    KEEL_ASSERT(KEEL_SECURE && page_use(page)->used > 0);
    queue_push_last(page);
    if (page_count_pushed(page, 1)) free_page_emptied(page);
}

static bool (*passed_on)(void* block);

void free_set_elsewhere(bool (*function)(void* block)) {
    passed_on = function;
}

bool free_pass_on(void* block) {
    return passed_on != NULL && passed_on(block);
}

// No block of Keel begins at the address. If the address is in address space that Keel has
// reserved, this is a fault. Otherwise the block belongs to another allocator, or was allocated
// before Keel was loaded. Then the only safe action is to leak it.
static void free_unknown(void* address) {
    if (address == NULL || (EMPTY_BLOCKS && empty_block_free(address))) return;
    guarded_free_unknown(address);
    large_require_not_freed(address);
    if (KEEL_SECURE && large_contains(address)) panic(FAULT_FREE_MISALIGNED, address);
    if (slices_contain(address)) panic(FAULT_FREE_NOT_ALLOCATED, address);
    if (free_pass_on(address)) return;
    count_event(EVENT_FOREIGN_FREE, 1);
    if (option_get(OPTION_FOREIGN_FREE) != 0) panic(FAULT_FREE_NOT_ALLOCATED, address);
    warn(FAULT_FREE_FOREIGN, address);
}

// The first free into a full page also comes here, because PAGE_FULL makes the fast comparison
// fail. A page has more than one block, so such a free does not empty it.
static void free_local(struct page* page, void* address) {
    KEEL_ASSERT(!page_is_large(page) && page_heap(atomic_get(&page->owner)) != NULL);
    if (KEEL_SECURE)
        block_free(page, address, state_mark(thread_of_heap()));
    else if (!page_begins_block(page, address))
        panic(FAULT_FREE_MISALIGNED, address);
    KEEL_REQUIRE(page_use(page)->used > 0, address);
    bool empty = page_push(page, address);
    if (page_is_full(page))
        heap_page_not_full(page_heap(atomic_get(&page->owner)), page);
    else if (empty)
        free_page_emptied(page);
}

// The blocks may have been sent to a parked heap, which no thread drains. Without a keeper, the
// thread that announces their page drains parked heaps.
static void free_into_batch(struct heap* heap, struct page* page, void* address) {
    KEEL_ASSERT(heap_is_real(heap));
    if (KEEL_LIKELY(!remote_batch_add(heap, page, address))) return;
    if (policy_has_keeper() || heap_is_realtime(heap)) return;
    uint64_t begun = cycles_now();
    (void)reclaim_parked();
    slow_path_note(&heap->slow_paths, SLOW_PATH_REMOTE_SENT, begun);
}

// A thread's first call may be a free. Then the thread also gets a heap, for the batches. After its
// end a thread has none.
static void free_remote(struct page* page, void* address) {
    KEEL_ASSERT(!page_is_large(page) && (atomic_get(&page->owner) & PAGE_INTERIOR) == 0);
    struct heap* heap = thread_heap;
    if (heap == &heap_none) heap = heap_acquire();
    if (heap == NULL || page_heap(atomic_get(&page->owner)) != heap)
        block_free(page, address, state_mark(thread_of_heap())); // else free_local does it
    if (heap == NULL || heap == &heap_gone)
        remote_batch_send_block(page, address);
    else if (page_heap(atomic_get(&page->owner)) == heap)
        free_local(page, address);
    else
        free_into_batch(heap, page, address);
}

// Keeps the slices of a block that this thread's heap allocated. False: not one of those, or the
// secure flavour, which does not give the next block the same address.
static bool keep_large(struct page* page, size_t slices) {
    KEEL_ASSERT(page_is_large(page));
    struct heap* heap = thread_heap;
    uintptr_t owner = atomic_get(&page->owner);
    if (KEEL_SECURE || slices > HEAP_KEPT_SLICES) return false;
    if (owner != ((uintptr_t)heap | PAGE_LARGE)) return false;
    char* start = page->start;
    if (arena_of(start) != NULL) return false;
    large_end(page);
    if (!heap_keep_run(heap, start, (unsigned)slices)) return true; // not timed: slow_path.h
    uint64_t begun = cycles_now();
    alloc_quantum();
    slow_path_note(&heap->slow_paths, SLOW_PATH_LARGE_FREE, begun);
    return true;
}

static void free_large(struct page* page) {
    KEEL_ASSERT(page_is_large(page));
    if (KEEL_UNLIKELY(page_is_guarded(page))) {
        guarded_free(page);
        return;
    }
    size_t slices = page->bytes / SLICE_BYTES;
    if (keep_large(page, slices)) return;
    bool is_mapping = (atomic_get(&page->owner) & PAGE_JUMBO) != 0;
    uint64_t begun = slow_path_begin_large(thread_heap->draws);
    large_release(page);
    if ((slices > RESERVE_LARGE_SLICES || is_mapping) && !heap_is_realtime(thread_heap))
        reserve_step_large(slices);
    else
        alloc_quantum();
    if (heap_is_real(thread_heap))
        slow_path_note_large(&thread_heap->slow_paths, SLOW_PATH_LARGE_FREE, begun);
}

// A block of a user heap is freed under the heap's lock and never batched. Therefore no other
// thread holds a block when the heap is destroyed.
static void free_in_user_heap(struct page* page, void* address) {
    switch (user_heap_free(page, address)) {
    case USER_FREE_DONE:
        break;
    case USER_FREE_PAGE_ENDED:
        alloc_quantum();
        break;
    case USER_FREE_LARGE:
        free_large(page);
        break;
    case USER_FREE_RETRY:
        free_slow(address, page_of(address));
        break;
    }
}

void free_slow(void* address, struct page* page) {
    if (KEEL_SECURE && !address_is_possible(address)) page = page_map.dummy; // page_of_low
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_INTERIOR) != 0) {
        page -= page->distance;
        owner = atomic_get(&page->owner);
    }
    if (KEEL_UNLIKELY((owner & PAGE_GUARDED) != 0)) guarded_verify(page, address);
    if (owner == 0) {
        free_unknown(address);
    } else if ((owner & HEAP_USER) != 0) {
        free_in_user_heap(page, address);
    } else if ((owner & (PAGE_LARGE | PAGE_JUMBO)) != 0) {
        if (address != page->start) panic(FAULT_FREE_MISALIGNED, address);
        large_verify(page);
        free_large(page);
    } else if (page_heap(owner) == thread_heap) {
        free_local(page, address);
    } else {
        free_remote(page, address);
    }
}

atomic_state shrink_was_refused;

// A realloc may leave a block in place that has up to twice the size, or any size if memory was
// refused (reallocate.c). A block of a user heap may be larger than its request (user_heap.h).
static void free_verify_size(const void* address, size_t size, size_t alignment, bool exact) {
    const struct page* page = page_around(address);
    uintptr_t owner = atomic_get(&page->owner);
    if (owner == 0) return; // the free reports what is wrong
    if (alignment == 1 && size <= REQUEST_SMALL_MAX && page->block_bytes != 0 &&
        request_class_small(size) == class_size(page->size_class))
        return;
    if ((owner & HEAP_USER) != 0 && user_heap_of(page_heap(owner))->inner) return;
    size_t usable = page_usable_bytes(page) - block_tail(page, address_untagged(address));
    size_t least = atomic_get(&shrink_was_refused) != 0 ? 0 : usable / 2;
    bool resized = !exact && size <= usable && size >= least;
    bool same = page_is_large(page) ? large_good_size(size) == usable
                : block_may_have_tail(page->block_bytes)
                    ? size == usable
                    : request_class_aligned(size, alignment) == class_size(page->size_class);
    if (resized || same) return;
    struct fault_block block = {.bytes = usable, .thread = thread_of_heap()};
    if (option_get(OPTION_SIZED_FREE) != SIZED_FREE_REPORT)
        panic_block(FAULT_FREE_SIZE, address, block);
    report_block(FAULT_FREE_SIZE, address, block);
}

void free_sized_slow(void* address, size_t size, size_t alignment, bool exact) {
    if (option_get(OPTION_SIZED_FREE) != SIZED_FREE_ANY)
        free_verify_size(address, size, alignment, exact);
    free_block(address);
}

void free_any(void* address) {
    if (address_is_possible(address))
        free_block(address);
    else
        free_unknown(address);
}

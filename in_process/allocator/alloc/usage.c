#include "allocator/alloc/usage.h"
#include "allocator/alloc/alloc.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/large/large.h"
#include "allocator/page/page.h"
#include "allocator/space/window.h"
#include <string.h>

#define DRAINS_MAX (1u << 20)

// The counts of the process at the last reset.
static struct {
    atomic_bits allocated[COUNT_ROWS];
    atomic_bits freed[COUNT_ROWS];
} baseline;

static uint64_t above(uint64_t value, uint64_t base) {
    return value > base ? value - base : 0;
}

struct usage_row usage_total(const struct usage* usage) {
    struct usage_row total = {0};
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        const struct usage_row* row = &usage->rows[i];
        total.pages += row->pages;
        total.reserved_bytes += row->reserved_bytes;
        total.used += row->used;
        total.used_bytes += row->used_bytes;
        total.allocated += row->allocated;
        total.freed += row->freed;
    }
    return total;
}

uint64_t heap_blocks_given(const struct heap* heap) {
    uint64_t given = 0;
    for (unsigned c = 0; c < CLASS_COUNT; c++) given += atomic_get(&heap->given[c]);
    return given;
}

uint64_t heap_pages_live(const struct heap* heap) {
    uint64_t ended =
        atomic_get(&heap->counts[HEAP_PAGES_ENDED]) + atomic_get(&heap->relieved_pages);
    return above(atomic_get(&heap->counts[HEAP_PAGES_BEGUN]), ended);
}

// Another thread may be changing the page. Each value was correct at some moment, but the values
// may be from different moments. Therefore nothing here relies on relations between them.
static KEEL_UNRACED void count_page(struct usage* usage, const struct page* page, uintptr_t owner) {
    bool large = (owner & (PAGE_LARGE | PAGE_JUMBO)) != 0;
    size_t bytes = page->bytes;
    unsigned size_class = class_size(page->size_class);
    if ((owner & PAGE_GUARDED) != 0) {
        large = size_class >= SIZE_COUNT;
        if (!large) bytes = size_class_bytes[size_class];
    } else if (bytes < SLICE_BYTES || (!large && page->size_class >= CLASS_COUNT)) {
        return;
    }
    struct usage_row* row = &usage->rows[large ? large_row(bytes) : size_class];
    row->pages++;
    row->reserved_bytes += bytes;
    if (large) {
        row->used++;
        row->used_bytes += page_usable_bytes(page);
        return;
    }
    if ((owner & PAGE_GUARDED) != 0) {
        row->used++;
        return;
    }
    uint32_t capacity = page->capacity;
    uint32_t used = page_use(page)->used;
    row->used += used < capacity ? used : capacity;
}

// `heap` NULL: the pages of all heaps.
static void count_window(struct usage* usage, const struct page* pages, const struct heap* heap) {
    for (size_t i = 0; i < WINDOW_SLICES; i++) {
        uintptr_t owner = atomic_get_acquire(&pages[i].owner);
        if (owner == 0 || (owner & PAGE_INTERIOR) != 0) continue;
        if (heap == NULL || page_heap(owner) == heap) count_page(usage, &pages[i], owner);
    }
}

static void count_pages(struct usage* usage, const struct heap* heap) {
    for (size_t i = 0; i < WINDOW_COUNT; i++) {
        const struct page* pages = page_map_window(i);
        if (pages != NULL) count_window(usage, pages, heap);
    }
}

static uint64_t bin_length(const struct heap* heap, unsigned size_class) {
    const struct block* block = NULL;
    unsigned length = 0;
    while ((block = bin_at(heap, size_class, length, block)) != NULL) length++;
    return length;
}

// Subtracts the blocks in the bins of a heap that the caller holds, because they are not used.
static void leave_out_bins(struct usage* usage, const struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        uint64_t ready = bin_length(heap, c);
        struct usage_row* row = &usage->rows[class_size(c)];
        row->used = above(row->used, ready);
        row->allocated = above(row->allocated, ready);
    }
}

static void add_given(struct usage* usage, const struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++)
        usage->rows[class_size(c)].allocated += atomic_get(&heap->given[c]);
    for (unsigned i = 0; i < LARGE_ROWS; i++)
        usage->rows[SIZE_COUNT + i].allocated += atomic_get(&heap->large_given[i]);
}

static void finish_rows(struct usage* usage) {
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        struct usage_row* row = &usage->rows[i];
        if (row->allocated < row->used) row->allocated = row->used;
        row->freed = row->allocated - row->used;
        if (i >= SIZE_COUNT) continue;
        row->used_bytes = row->used * row_bytes(i);
    }
}

static void count_process(struct usage* usage) {
    memset(usage, 0, sizeof *usage);
    // Counts the used blocks before the given ones: a block that is allocated between the two
    // counts increases only the second.
    count_pages(usage, NULL);
    for (unsigned c = 0; c < SIZE_COUNT; c++)
        usage->rows[c].allocated = atomic_get(&user_heap_given_before[c]);
    for (unsigned i = 0; i < LARGE_ROWS; i++)
        usage->rows[SIZE_COUNT + i].allocated = atomic_get(&user_heap_large_before[i]);
    for (const struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all)
        add_given(usage, heap);
    for (const struct user_heap* user = user_heap_first(); user != NULL; user = user->next_all)
        add_given(usage, &user->heap);
    const struct heap* own = own_heap();
    if (own != NULL) leave_out_bins(usage, own);
    finish_rows(usage);
}

void usage_of_process(struct usage* usage) {
    count_process(usage);
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        struct usage_row* row = &usage->rows[i];
        row->allocated = above(row->allocated, atomic_get(&baseline.allocated[i]));
        row->freed = above(row->freed, atomic_get(&baseline.freed[i]));
    }
}

void usage_reset(void) {
    struct usage usage;
    count_process(&usage);
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        atomic_set(&baseline.allocated[i], usage.rows[i].allocated);
        atomic_set(&baseline.freed[i], usage.rows[i].freed);
    }
}

void usage_of_thread(struct usage* usage) {
    memset(usage, 0, sizeof *usage);
    const struct heap* own = own_heap();
    if (own == NULL) return;
    count_pages(usage, own);
    add_given(usage, own);
    leave_out_bins(usage, own);
    finish_rows(usage);
}

static bool count_area(void* context, const struct visited_page* area, void* block) {
    struct usage* usage = context;
    (void)block;
    unsigned index =
        area->large ? large_row(area->stride_bytes) : size_class_of(area->stride_bytes);
    struct usage_row* row = &usage->rows[index];
    row->pages++;
    row->reserved_bytes += area->reserved_bytes;
    row->used += area->used;
    row->used_bytes += area->used * area->block_bytes;
    return true;
}

void usage_of_heap(struct user_heap* user, struct usage* usage) {
    memset(usage, 0, sizeof *usage);
    (void)user_heap_visit(user, false, count_area, usage);
    os_lock_acquire(&user->lock);
    add_given(usage, &user->heap);
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        struct usage_row* row = &usage->rows[class_size(c)];
        row->allocated = above(row->allocated, bin_length(&user->heap, c));
    }
    os_lock_release(&user->lock);
    finish_rows(usage);
}

// Drains until the queue is empty. The heap's thread is the consumer of its queue. The bound ends
// the loop even if other threads keep freeing.
static void drain_all(struct heap* heap) {
    for (unsigned i = 0; i < DRAINS_MAX && !remote_queue_is_empty(&heap->remote_queue); i++)
        (void)heap_drain_entered(heap);
}

// Becomes the consumer of the queue and drains it. The keeper then cannot end a page during the
// visit. False: the thread is already the consumer, in a visit that encloses this one.
static bool enter_and_drain(struct heap* heap) {
    // Send the remote frees that this thread did while its default was a user heap.
    if (thread_heap_is_redirect()) remote_batch_flush(thread_heap);
    relief_pause();
    bool entered = remote_queue_enter(&heap->remote_queue);
    relief_resume();
    if (entered) drain_all(heap);
    return entered;
}

static bool visit_window(struct heap* heap, const struct page* pages, bool blocks,
                         page_visitor* visit, void* context) {
    for (size_t i = 0; i < WINDOW_SLICES; i++) {
        uintptr_t owner = atomic_get_acquire(&pages[i].owner);
        if (page_heap(owner) != heap || (owner & PAGE_INTERIOR) != 0) continue;
        if (!page_visit(heap, &pages[i], blocks, visit, context)) return false;
    }
    return true;
}

bool own_heap_visit(bool blocks, page_visitor* visit, void* context) {
    struct heap* heap = own_heap();
    if (heap == NULL) return true;
    bool entered = enter_and_drain(heap);
    bool more = true;
    for (size_t i = 0; more && i < WINDOW_COUNT; i++) {
        const struct page* pages = page_map_window(i);
        if (pages != NULL) more = visit_window(heap, pages, blocks, visit, context);
    }
    if (entered) remote_queue_leave(&heap->remote_queue);
    alloc_quantum();
    return more;
}

bool own_heap_owns(const void* address) {
    struct heap* heap = own_heap();
    return heap != NULL && page_heap(atomic_get(&page_around(address)->owner)) == heap;
}

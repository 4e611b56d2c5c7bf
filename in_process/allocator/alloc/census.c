#include "allocator/alloc/census.h"
#include "allocator/arena/window.h"
#include "allocator/page/large.h"
#include "allocator/page/page.h"
#include <string.h>

// As far as the process had come when it was reset.
static struct {
    atomic_bits allocated[COUNT_ROWS];
    atomic_bits freed[COUNT_ROWS];
} baseline;

static uint64_t above(uint64_t value, uint64_t base) {
    return value > base ? value - base : 0;
}

struct census_row census_total(const struct census* census) {
    struct census_row total = {0};
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        const struct census_row* row = &census->rows[i];
        total.pages += row->pages;
        total.reserved_bytes += row->reserved_bytes;
        total.used += row->used;
        total.used_bytes += row->used_bytes;
        total.allocated += row->allocated;
        total.freed += row->freed;
    }
    return total;
}

uint64_t census_given(const struct heap* heap) {
    uint64_t given = 0;
    for (unsigned c = 0; c < CLASS_COUNT; c++) given += atomic_get(&heap->given[c]);
    return given;
}

uint64_t census_pages(const struct heap* heap) {
    uint64_t ended = atomic_get(&heap->counts[HEAP_PAGE_ENDED]) + atomic_get(&heap->relieved_pages);
    return above(atomic_get(&heap->counts[HEAP_PAGE_BEGUN]), ended);
}

// The figures of a page that another thread may be changing just now: each by itself one that was,
// but not of one moment; so nothing here may rely on how they go together.
static KEEL_UNRACED void count_page(struct census* census, const struct page* page,
                                    uintptr_t owner) {
    bool large = (owner & (PAGE_LARGE | PAGE_JUMBO)) != 0;
    size_t bytes = page->bytes;
    unsigned size_class = page->size_class;
    if (bytes < SLICE_BYTES || (!large && size_class >= CLASS_COUNT)) return;
    struct census_row* row = &census->rows[large ? large_row(bytes) : size_class];
    row->pages++;
    row->reserved_bytes += bytes;
    if (large) {
        row->used++;
        row->used_bytes += bytes;
        return;
    }
    uint32_t capacity = (uint32_t)(bytes / size_class_bytes[size_class]);
    uint32_t used = page_list(page) == PAGE_FULL ? capacity : page_use(page)->until_look;
    row->used += used < capacity ? used : capacity;
}

// `heap` NULL: pages of all.
static void count_window(struct census* census, const struct page* pages, const struct heap* heap) {
    for (size_t i = 0; i < WINDOW_SLICES; i++) {
        uintptr_t owner = atomic_get_acquire(&pages[i].owner);
        if (owner == 0 || (owner & PAGE_INTERIOR) != 0) continue;
        if (heap == NULL || page_heap(owner) == heap) count_page(census, &pages[i], owner);
    }
}

static void count_pages(struct census* census, const struct heap* heap) {
    for (size_t i = 0; i < WINDOW_COUNT; i++) {
        const struct page* pages = page_map_window(i);
        if (pages != NULL) count_window(census, pages, heap);
    }
}

static uint64_t bin_length(const struct heap* heap, unsigned size_class) {
    uint64_t length = 0;
    for (const struct block* b = heap->bin[size_class]; b != NULL; b = b->next) length++;
    return length;
}

// The bins of a heap that the caller holds: their blocks are nobody's.
static void leave_out_bins(struct census* census, const struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        uint64_t ready = bin_length(heap, c);
        census->rows[c].used = above(census->rows[c].used, ready);
        census->rows[c].allocated = above(census->rows[c].allocated, ready);
    }
}

static void add_given(struct census* census, const struct heap* heap) {
    for (unsigned c = 0; c < CLASS_COUNT; c++)
        census->rows[c].allocated += atomic_get(&heap->given[c]);
    for (unsigned i = 0; i < LARGE_ROWS; i++)
        census->rows[CLASS_COUNT + i].allocated += atomic_get(&heap->large_given[i]);
}

static void settle_rows(struct census* census) {
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        struct census_row* row = &census->rows[i];
        if (row->allocated < row->used) row->allocated = row->used;
        row->freed = row->allocated - row->used;
        if (i < CLASS_COUNT) row->used_bytes = row->used * size_class_bytes[i];
    }
}

static void count_process(struct census* census) {
    memset(census, 0, sizeof *census);
    // First what is used, then what was given: what is allocated meanwhile adds to the second only.
    count_pages(census, NULL);
    for (unsigned c = 0; c < CLASS_COUNT; c++)
        census->rows[c].allocated = atomic_get(&shared_given_before[c]);
    for (unsigned i = 0; i < LARGE_ROWS; i++)
        census->rows[CLASS_COUNT + i].allocated = atomic_get(&shared_large_before[i]);
    for (const struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all)
        add_given(census, heap);
    for (const struct shared* shared = shared_first(); shared != NULL; shared = shared->next_all)
        add_given(census, &shared->heap);
    const struct heap* own = first_class_own();
    if (own != NULL) leave_out_bins(census, own);
    settle_rows(census);
}

void census_of_process(struct census* census) {
    count_process(census);
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        struct census_row* row = &census->rows[i];
        row->allocated = above(row->allocated, atomic_get(&baseline.allocated[i]));
        row->freed = above(row->freed, atomic_get(&baseline.freed[i]));
    }
}

void census_reset(void) {
    struct census census;
    count_process(&census);
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        atomic_set(&baseline.allocated[i], census.rows[i].allocated);
        atomic_set(&baseline.freed[i], census.rows[i].freed);
    }
}

void census_of_thread(struct census* census) {
    memset(census, 0, sizeof *census);
    const struct heap* own = first_class_own();
    if (own == NULL) return;
    count_pages(census, own);
    add_given(census, own);
    leave_out_bins(census, own);
    settle_rows(census);
}

static bool count_area(void* context, const struct area* area, void* block) {
    struct census* census = context;
    (void)block;
    bool large = area->block_bytes == area->reserved_bytes;
    unsigned index = large ? large_row(area->block_bytes) : size_class_of(area->block_bytes);
    struct census_row* row = &census->rows[index];
    row->pages++;
    row->reserved_bytes += area->reserved_bytes;
    row->used += area->used_bytes / area->block_bytes;
    row->used_bytes += area->used_bytes;
    return true;
}

void census_of_heap(struct shared* shared, struct census* census) {
    memset(census, 0, sizeof *census);
    (void)first_class_visit(shared, false, count_area, census);
    os_lock_acquire(&shared->lock);
    add_given(census, &shared->heap);
    for (unsigned c = 0; c < CLASS_COUNT; c++)
        census->rows[c].allocated = above(census->rows[c].allocated, bin_length(&shared->heap, c));
    os_lock_release(&shared->lock);
    settle_rows(census);
}

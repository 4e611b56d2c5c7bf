#include "allocator/page/large.h"
#include "allocator/arena/jumbo.h"
#include "allocator/arena/limit.h"
#include "allocator/arena/run.h"
#include "base/bits.h"
#include "base/checked.h"

#define RUN_BYTES_MAX (RUN_SLICES_MAX * SLICE_BYTES)

static unsigned slices_for(size_t bytes) {
    return (unsigned)((bytes + SLICE_BYTES - 1) / SLICE_BYTES);
}

static void large_begin(char* start, unsigned slices) {
    struct page* page = page_of(start);
    page->start = start;
    page->bytes = slices * SLICE_BYTES;
    page->block_bytes = 0;
    page->distance = 0;
    atomic_set_release(&page->owner, PAGE_LARGE);
}

struct large large_allocate(size_t bytes, size_t alignment) {
    struct large block = {NULL, true};
    if (bytes > KEEL_SIZE_MAX - WINDOW_BYTES || alignment > WINDOW_BYTES * 64) return block;
    if (bytes == 0) bytes = 1;
    if (!limit_admits(bytes)) return block;
    unsigned alignment_slices = alignment <= SLICE_BYTES ? 1 : (unsigned)(alignment / SLICE_BYTES);
    bool jumbo =
        bytes > RUN_BYTES_MAX ||
        (alignment_slices > 1 && slices_for(bytes) + alignment_slices - 1 > SUPERBLOCK_SLICES);
    if (jumbo) {
        // A mapping must reach beyond its first slice, or two of them could begin in the same one.
        block.start = jumbo_allocate(bytes > SLICE_BYTES ? bytes : 2 * SLICE_BYTES, alignment);
        return block;
    }
    unsigned slices = slices_for(bytes);
    struct run run = alignment_slices > 1 ? run_allocate_aligned(slices, alignment_slices)
                                          : run_allocate(slices);
    if (run.start != NULL) large_begin(run.start, slices);
    block.start = run.start;
    block.zero = run.zero;
    return block;
}

struct large large_allocate_movable(size_t bytes) {
    if (bytes < LARGE_MOVABLE_BYTES || bytes > KEEL_SIZE_MAX - WINDOW_BYTES)
        return large_allocate(bytes, 1);
    if (!limit_admits(bytes)) return (struct large){NULL, true};
    return (struct large){jumbo_allocate(bytes, 1), true};
}

void large_release(struct page* page) {
    if ((atomic_get(&page->owner) & PAGE_JUMBO) != 0) {
        jumbo_release(page);
        return;
    }
    char* start = page->start;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    atomic_set_release(&page->owner, 0);
    run_release(start, slices);
}

void* large_resize(struct page* page, size_t bytes) {
    if (bytes > page->bytes && !limit_admits(bytes - page->bytes)) return NULL;
    if (atomic_get(&page->owner) == PAGE_JUMBO) {
        return bytes > LARGE_MOVABLE_BYTES / 2 ? jumbo_resize(page, bytes) : NULL;
    }
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    unsigned wanted = slices_for(bytes);
    if (bytes <= SLICE_BYTES || wanted > RUN_SLICES_MAX) return NULL;
    if (wanted > slices && !run_extend(page->start, slices, wanted)) return NULL;
    if (wanted < slices) run_release(page->start + wanted * SLICE_BYTES, slices - wanted);
    page->bytes = wanted * SLICE_BYTES;
    return page->start;
}

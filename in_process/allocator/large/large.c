#include "allocator/large/large.h"
#include "allocator/large/jumbo.h"
#include "allocator/space/arena.h"
#include "allocator/space/packed.h"
#include "allocator/space/run.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/memory.h"
#include "os/thread.h"
#include <string.h>

static size_t slices_for(size_t bytes) {
    KEEL_ASSERT(bytes > 0 && bytes <= LARGE_BYTES_MAX + WINDOW_BYTES);
    return (bytes + SLICE_BYTES - 1) / SLICE_BYTES;
}

static const struct large large_none = {NULL, true};

static size_t alignment_slices_of(size_t alignment) {
    KEEL_ASSERT(is_power_of_two(alignment));
    return alignment <= SLICE_BYTES ? 1 : alignment / SLICE_BYTES;
}

static struct large large_of_run(struct run run, size_t slices) {
    KEEL_ASSERT(slices > 0);
    if (run.start == NULL) return large_none;
    large_begin(run.start, slices);
    return (struct large){run.start, run.zero};
}

// A block on slices that are not resident as far as is known: only what the program touches is.
static struct large large_of_cold(struct run run, size_t bytes) {
    struct large block = large_of_run(run, slices_for(bytes));
    if (block.start == NULL || run.warm) return block;
    policy_begin_sparse(page_of(block.start));
    if (run.untouched >= slices_for(bytes)) fill_watch(block.start, bytes, bytes);
    return block;
}

static struct large large_of_mapping(size_t bytes, size_t alignment, bool filled) {
    struct large block = {NULL, true};
    block.start = jumbo_allocate(bytes, alignment, filled, &block.zero);
    return block;
}

// A mapping is larger than a slice, so no two mappings begin in the same slice.
static struct large large_jumbo(size_t bytes, size_t alignment, bool filled) {
    size_t slices = slices_for(bytes);
    struct run run = arena_take_shared(slices, alignment_slices_of(alignment));
    if (run.start != NULL) return large_of_run(run, slices);
    bytes = bytes > SLICE_BYTES ? bytes : 2 * SLICE_BYTES;
    return large_of_mapping(bytes, alignment, filled);
}

// In the secure flavour large blocks are whole slices: they wait in quarantine as such.
static bool is_packed(size_t bytes, size_t alignment) {
    return !KEEL_SECURE && space_is_scarce() && bytes > SLICE_BYTES &&
           bytes < LARGE_MOVABLE_BYTES && alignment <= PACKED_UNIT;
}

static struct large large_packed(size_t bytes) {
    KEEL_ASSERT(!KEEL_SECURE && bytes > SLICE_BYTES && bytes < LARGE_MOVABLE_BYTES);
    bytes = round_up(bytes, PACKED_UNIT);
    struct run run = arena_take_shared(slices_for(bytes), 1);
    if (run.start != NULL) return large_of_run(run, slices_for(bytes));
    run = packed_allocate(bytes);
    if (run.start == NULL) return large_none;
    large_enter(run.start, bytes, PAGE_LARGE | PAGE_PACKED);
    return (struct large){run.start, run.zero};
}

// Smaller blocks would divide mappings into more pieces than the system admits mappings.
#define CACHED_BYTES_MIN ((size_t)512 << 10)

// Takes a part of a cached mapping. Else a program that frees a block of some MiB and then
// allocates smaller ones keeps the memory of both. In the secure flavour, which keeps no mapping in
// quarantine, only a block that is a mapping anyway.
static struct large large_cached(size_t bytes, size_t alignment, bool filled) {
    if (bytes < (KEEL_SECURE ? LARGE_MOVABLE_BYTES : CACHED_BYTES_MIN)) return large_none;
    if (alignment > os_page_bytes() || !mapping_cache_has(bytes)) return large_none;
    return large_of_mapping(bytes, alignment, filled);
}

// Warm slices, or a cached mapping: this takes no page fault, and no more memory.
static struct large large_warm(size_t bytes, size_t alignment) {
    size_t slices = slices_for(bytes);
    struct run run = {NULL, false, false, 0};
    if (slices <= RUN_SLICES_MAX) run = run_allocate_warm((unsigned)slices);
    return run.start != NULL ? large_of_run(run, slices) : large_cached(bytes, alignment, true);
}

// More memory that is resident: of a unit that this thread populates, or a mapping with huge pages.
// Start NULL: none fits.
static struct large large_resident(size_t bytes, size_t alignment) {
    size_t slices = slices_for(bytes);
    struct large block = large_none;
    if (slices <= HUGE_SLICES) block = large_of_run(reserve_take_of_unit((unsigned)slices), slices);
    if (block.start != NULL || KEEL_SECURE || slices < HUGE_SLICES / 2) return block;
    return large_jumbo(bytes, alignment, true);
}

struct large large_allocate(size_t bytes, size_t alignment, bool populates) {
    KEEL_ASSERT(is_power_of_two(alignment));
    if (!large_is_possible(bytes, alignment)) return large_none;
    if (bytes == 0) bytes = 1;
    if (!limit_admits(bytes)) return large_none;
    if (is_packed(bytes, alignment)) return large_packed(bytes);
    size_t alignment_slices = alignment_slices_of(alignment);
    size_t slices = slices_for(bytes);
    bool filled = populates && (fill_expects(bytes) || policy_is_preferred());
    struct large block = filled && alignment_slices == 1 ? large_warm(bytes, alignment)
                                                         : large_cached(bytes, alignment, filled);
    if (block.start != NULL) return block;
    if (filled && fill_is_probe(bytes)) filled = false;
    if (filled && alignment_slices == 1) block = large_resident(bytes, alignment);
    if (block.start != NULL) return block;
    bool too_wide = alignment_slices > 1 &&
                    (slices > SUPERBLOCK_SLICES || alignment_slices > SUPERBLOCK_SLICES);
    if (bytes >= LARGE_MOVABLE_BYTES || too_wide) {
        block = large_jumbo(bytes, alignment, filled);
        // Where the system refuses a mapping, there may still be slices.
        if (block.start != NULL || too_wide || slices > RUN_SLICES_MAX) return block;
    }
    return large_of_cold(run_allocate_aligned((unsigned)slices, (unsigned)alignment_slices,
                                              filled ? RUN_WARM : RUN_SMALL),
                         bytes);
}

struct large large_allocate_in(struct arena* arena, size_t bytes, size_t alignment) {
    KEEL_ASSERT(arena != NULL && is_power_of_two(alignment));
    if (!large_is_possible(bytes, alignment)) return large_none;
    if (bytes == 0) bytes = 1;
    if (!limit_admits(bytes)) return large_none;
    size_t slices = slices_for(bytes);
    return large_of_run(arena_take(arena, slices, alignment_slices_of(alignment)), slices);
}

struct large large_allocate_movable(size_t bytes) {
    if (!large_is_possible(bytes, 1) || !limit_admits(bytes)) return large_none;
    size_t slices = slices_for(bytes);
    if (bytes >= LARGE_MOVABLE_BYTES) {
        struct large block = large_jumbo(bytes, 1, fill_expects(bytes));
        if (block.start != NULL || slices > RUN_SLICES_MAX) return block;
    }
    // A place to grow is worth nothing while the process holds too much memory.
    if (policy_is_above()) {
        struct large block = large_warm(bytes, 1);
        if (block.start != NULL) return block;
    }
    return large_of_cold(run_allocate_growing((unsigned)slices), bytes);
}

// Moves the block from its slices into a mapping, by moving page tables.
static void* leave_run(struct page* page, size_t bytes) {
    KEEL_ASSERT((atomic_get(&page->owner) & PAGE_LARGE) != 0);
    char* start = page->start;
    if (bytes < LARGE_MOVABLE_BYTES || arena_of(start) != NULL) return NULL;
    bool sparse = page->sparse != 0 && !fill_is_seen(start, page->bytes);
    if (!sparse && mapping_cache_has(bytes)) return NULL; // as in resize_mapping (jumbo.c)
    uintptr_t heap = atomic_get(&page->owner) & ~(uintptr_t)PAGE_FLAGS;
    fill_end(start, page->bytes); // before its memory leaves
    void* moved = jumbo_adopt(heap, start, page->bytes, bytes);
    if (moved == NULL) return NULL;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    large_end(page);
    run_release_empty(start, slices);
    if (sparse) policy_begin_sparse(page_of(moved));
    return moved;
}

void large_zero(struct page* page) {
    KEEL_ASSERT(page_is_large(page));
    if ((atomic_get(&page->owner) & PAGE_JUMBO) == 0) {
        memset(page->start, 0, page_usable_bytes(page));
        return;
    }
    os_zero(page->start, page->bytes);
    if (KEEL_SECURE) large_seal(page, page->usable);
}

// The last page at `last` or before it, in the same window, that has an owner. NULL: none.
static const struct page* page_before(const struct page* first, const struct page* last) {
    for (const struct page* page = last; first != NULL && page >= first; page--)
        if (atomic_get_acquire(&page->owner) != 0) return page;
    return NULL;
}

bool large_contains(const void* address) {
    if (!address_is_possible(address)) return false;
    address = address_untagged(address);
    uintptr_t window = (uintptr_t)address >> WINDOW_SHIFT;
    const struct page* page = page_before(page_map_window(window), page_of(address));
    if (page == NULL && window > 0) { // the block may begin in the window before
        const struct page* first = page_map_window(window - 1);
        if (first != NULL) page = page_before(first, first + WINDOW_SLICES - 1);
    }
    return page != NULL && page_is_large(page) &&
           (size_t)((const char*)address - page->start) < page->bytes;
}

void large_release(struct page* page) {
    KEEL_ASSERT(page_is_large(page) && page->start != NULL);
    policy_note(); // a block that grew counts as used for the last time
    char* start = page->start;
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_PACKED) != 0) {
        size_t bytes = page->bytes;
        large_end(page);
        packed_release(start, bytes);
        return;
    }
    bool jumbo = (owner & PAGE_JUMBO) != 0;
    if (jumbo) {
        large_unseal(page);
        jumbo_release(page);
    } else if (KEEL_SECURE && arena_of(start) == NULL) {
        large_quarantine_enter(page);
    } else {
        large_unseal(page);
        unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
        large_end(page);
        run_release(start, slices);
    }
}

void* large_resize(struct page* page, size_t bytes) {
    KEEL_ASSERT(page_is_large(page) && bytes > 0);
    if (bytes > page->bytes && !limit_admits(bytes - page->bytes)) return NULL;
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_PACKED) != 0 || bytes <= SLICE_BYTES) return NULL;
    if ((owner & PAGE_JUMBO) != 0) {
        // Copies a small rest, so that the whole mapping is available to the next large block.
        bool small_rest = bytes < LARGE_MOVABLE_BYTES && bytes <= page->bytes / 2;
        return small_rest ? NULL : jumbo_resize(page, bytes);
    }
    size_t slices = page->bytes / SLICE_BYTES;
    KEEL_ASSERT(page->bytes % SLICE_BYTES == 0 && slices > 0);
    size_t wanted = slices_for(bytes);
    if (wanted > RUN_SLICES_MAX) return leave_run(page, bytes);
    if (wanted > slices && !run_extend(page->start, (unsigned)slices, (unsigned)wanted))
        return leave_run(page, bytes);
    fill_end(page->start, page->bytes);
    if (wanted < slices)
        run_release(page->start + wanted * SLICE_BYTES, (unsigned)(slices - wanted));
    policy_resize_large(page, wanted * SLICE_BYTES);
    return page->start;
}

#include "allocator/page/large.h"
#include "allocator/slices/arena.h"
#include "allocator/slices/filling.h"
#include "allocator/slices/fresh.h"
#include "allocator/slices/jumbo.h"
#include "allocator/slices/mapping_cache.h"
#include "allocator/slices/packed.h"
#include "allocator/slices/reserve.h"
#include "allocator/slices/run.h"
#include "base/bits.h"
#include "os/memory.h"
#include "os/thread.h"
#include <string.h>

// From this size on, a warm mapping is better than cold slices.
#define CACHED_BYTES_MIN ((size_t)512 << 10)

static size_t slices_for(size_t bytes) {
    return (bytes + SLICE_BYTES - 1) / SLICE_BYTES;
}

static void large_enter(char* start, size_t bytes, uintptr_t flags) {
    struct page* page = page_of(start);
    page->start = start;
    page->bytes = bytes;
    page->block_bytes = 0;
    page->distance = 0;
    atomic_set_release(&page->owner, flags);
}

void large_begin(char* start, size_t slices) {
    large_enter(start, slices * SLICE_BYTES, PAGE_LARGE);
}

static const struct large large_none = {NULL, true};

static size_t alignment_slices_of(size_t alignment) {
    return alignment <= SLICE_BYTES ? 1 : alignment / SLICE_BYTES;
}

static struct large large_of_run(struct run run, size_t slices) {
    if (run.start == NULL) return large_none;
    large_begin(run.start, slices);
    return (struct large){run.start, run.zero};
}

// The budget of blocks of which nothing is known (reserve.h).
static struct large large_of_warm(struct run run, size_t bytes) {
    struct large block = large_of_run(run, slices_for(bytes));
    bool unknown = bytes < FRESH_BYTES_MIN ? filling_is_unknown() : fresh_is_unknown();
    if (unknown) reserve_begin_unknown(page_of(block.start));
    return block;
}

static struct large large_of_mapping(size_t bytes, size_t alignment) {
    struct large block = {NULL, true};
    block.start = jumbo_allocate(bytes, alignment, &block.zero);
    return block;
}

// A mapping is larger than a slice, so no two mappings begin in the same slice.
static struct large large_jumbo(size_t bytes, size_t alignment) {
    size_t slices = slices_for(bytes);
    struct run run = arena_take_shared(slices, alignment_slices_of(alignment));
    if (run.start != NULL) return large_of_run(run, slices);
    bytes = bytes > SLICE_BYTES ? bytes : 2 * SLICE_BYTES;
    return large_of_mapping(bytes, alignment);
}

// In the secure flavour large blocks are whole slices: they wait in quarantine as such.
static bool is_packed(size_t bytes, size_t alignment) {
    return !KEEL_SECURE && space_is_scarce() && bytes > SLICE_BYTES &&
           bytes < LARGE_MOVABLE_BYTES && alignment <= PACKED_UNIT;
}

static struct large large_packed(size_t bytes) {
    bytes = round_up(bytes, PACKED_UNIT);
    struct run run = arena_take_shared(slices_for(bytes), 1);
    if (run.start != NULL) return large_of_run(run, slices_for(bytes));
    run = packed_allocate(bytes);
    if (run.start == NULL) return large_none;
    large_enter(run.start, bytes, PAGE_LARGE | PAGE_PACKED);
    return (struct large){run.start, run.zero};
}

// Takes a block from an arena, or from memory that takes no page fault. From FRESH_BYTES_MIN on a
// cached mapping comes first: blocks that shrink in their slices leave few superblocks completely
// free, and the cache would not be used while the keeper prepares warm slices.
static struct large large_warm(size_t bytes, size_t alignment, bool spares) {
    size_t slices = slices_for(bytes);
    struct run run = arena_take_shared(slices, 1);
    if (run.start != NULL) return large_of_run(run, slices);
    bool mapping_fits = alignment <= os_page_bytes(); // slices are aligned to 64 KiB
    bool movable = bytes >= LARGE_MOVABLE_BYTES;
    bool cached = movable || (bytes >= FRESH_BYTES_MIN && partition_now() == 0);
    if (mapping_fits && cached && mapping_cache_has(bytes, movable ? SIZE_MAX : 2 * bytes))
        return large_of_mapping(bytes, alignment);
    if (!spares && slices <= RUN_SLICES_MAX) run = run_allocate_warm((unsigned)slices);
    if (run.start != NULL) return large_of_warm(run, bytes);
    if (bytes < LARGE_MOVABLE_BYTES && partition_now() != 0) return large_none; // partition.h
    // If `cached`, the cache has been asked already.
    if (cached || !mapping_fits || !mapping_cache_has(bytes, 2 * bytes)) return large_none;
    return large_of_mapping(bytes, alignment);
}

static const struct run run_none = {NULL, false, false};

// Some slices of a unit of 2 MiB that this thread populates, if the program fills such blocks, or
// if that is unknown and the budget has room.
static struct run run_of_unit(size_t bytes) {
    unsigned slices = (unsigned)slices_for(bytes);
    if (bytes >= FRESH_BYTES_MIN)
        return fresh_affords_unknown(bytes) ? reserve_take(slices) : run_none;
    enum filling filling = filling_of_next();
    bool takes =
        filling == FILLING_UNKNOWN ? reserve_affords_unknown(slices) : filling == FILLING_EXPECTED;
    return takes ? reserve_take(slices) : run_none;
}

// True: the block leaves what the keeper has prepared to others, because the program may not fill
// it. More than that is warm if it was freed.
static bool spares_reserve(size_t bytes) {
    if (!reserve_has_keeper() || reserve_is_preferred() || space_is_scarce()) return false;
    if (KEEL_SECURE || bytes >= LARGE_MOVABLE_BYTES) return false;
    bool filled = bytes < FRESH_BYTES_MIN ? filling_is_seen() : fresh_is_seen();
    size_t prepared = reserve_target() + run_live_slices() / 8 + 2 * HUGE_SLICES;
    return !filled && run_dirty_slices() < prepared + slices_for(bytes);
}

// Takes warm slices if possible.
static struct run run_likely_filled(size_t bytes, bool populates, bool spares) {
    unsigned slices = (unsigned)slices_for(bytes);
    struct run run = spares ? run_none : run_allocate_warm(slices);
    if (run.start != NULL) return run;
    if (populates) run = run_of_unit(bytes);
    if (run.start != NULL) return run;
    run = spares ? run_allocate_cold(slices) : run_allocate(slices);
    if (run.start != NULL && !run.warm && bytes < FRESH_BYTES_MIN) filling_watch(run.start, bytes);
    return run;
}

static void watch_fresh(struct run run, size_t bytes) {
    if (run.start != NULL && !run.warm) fresh_begin(run.start, bytes, FRESH_SLICES);
}

// A run within a unit can have been populated as one huge page.
static struct run run_for_block(size_t bytes, size_t alignment_slices, bool populates,
                                bool spares) {
    unsigned slices = (unsigned)slices_for(bytes);
    struct run run = alignment_slices > 1 ? run_allocate_aligned(slices, (unsigned)alignment_slices)
                     : slices <= HUGE_SLICES ? run_likely_filled(bytes, populates, spares)
                                             : run_allocate(slices);
    watch_fresh(run, bytes);
    return run;
}

// True: on huge pages of its own the block takes fewer page faults than on cold slices. In the
// secure flavour mappings are not kept in quarantine.
static bool is_better_mapped(size_t bytes, bool populates) {
    if (KEEL_SECURE) return false;
    return fresh_is_expected(bytes) ||
           (populates && slices_for(bytes) > HUGE_SLICES && fresh_affords_unknown(bytes));
}

struct large large_allocate(size_t bytes, size_t alignment, bool populates) {
    if (!large_is_possible(bytes, alignment)) return large_none;
    if (bytes == 0) bytes = 1;
    if (!limit_admits(bytes)) return large_none;
    if (is_packed(bytes, alignment)) return large_packed(bytes);
    size_t alignment_slices = alignment_slices_of(alignment);
    size_t slices = slices_for(bytes);
    bool spares = populates && spares_reserve(bytes);
    if (bytes >= CACHED_BYTES_MIN && alignment_slices == 1) {
        struct large block = large_warm(bytes, alignment, spares);
        if (block.start != NULL) return block;
    }
    if (bytes >= FRESH_BYTES_MIN) fresh_learn();
    bool too_wide = alignment_slices > 1 && slices + alignment_slices - 1 > SUPERBLOCK_SLICES;
    bool movable = bytes >= LARGE_MOVABLE_BYTES;
    if (movable || too_wide || is_better_mapped(bytes, populates)) {
        struct large block = large_jumbo(bytes, alignment);
        // Where the system refuses a mapping, there may still be slices.
        if (block.start != NULL || too_wide || slices > RUN_SLICES_MAX) return block;
    }
    struct run run = run_for_block(bytes, alignment_slices, populates, spares);
    return run.warm ? large_of_warm(run, bytes) : large_of_run(run, slices);
}

struct large large_allocate_in(struct arena* arena, size_t bytes, size_t alignment) {
    if (!large_is_possible(bytes, alignment)) return large_none;
    if (bytes == 0) bytes = 1;
    if (!limit_admits(bytes)) return large_none;
    size_t slices = slices_for(bytes);
    return large_of_run(arena_take(arena, slices, alignment_slices_of(alignment)), slices);
}

struct large large_allocate_movable(size_t bytes) {
    if (!large_is_possible(bytes, 1) || !limit_admits(bytes)) return large_none;
    size_t slices = slices_for(bytes);
    if (bytes >= FRESH_BYTES_MIN) fresh_learn();
    if (bytes >= LARGE_MOVABLE_BYTES) {
        struct large block = large_jumbo(bytes, 1);
        if (block.start != NULL || slices > RUN_SLICES_MAX) return block;
    }
    struct run run = run_allocate_growing((unsigned)slices);
    watch_fresh(run, bytes);
    return large_of_run(run, slices);
}

void large_end(struct page* page) {
    reserve_end_unknown(page);
    atomic_set_release(&page->owner, 0);
}

// The block's place, if it has one, must not stay: the next block that begins there gets its own.
static void end_fresh(const struct page* page) {
    if (page->bytes >= FRESH_BYTES_MIN) fresh_end(page->start);
}

// Moves the block from its slices into a mapping, by moving page tables.
static void* leave_run(struct page* page, size_t bytes) {
    char* start = page->start;
    if (bytes < LARGE_MOVABLE_BYTES || arena_of(start) != NULL) return NULL;
    // A copy into warm memory takes no page fault. One into huge pages takes a few, where the part
    // that the program will fill would take hundreds.
    if (mapping_cache_has(bytes, SIZE_MAX)) return NULL;
    if (fresh_is_expected(bytes) && fresh_doubles(start, page->bytes, bytes)) return NULL;
    end_fresh(page);
    uintptr_t heap = atomic_get(&page->owner) & ~(uintptr_t)PAGE_FLAGS;
    void* moved = jumbo_adopt(heap, start, page->bytes, bytes);
    if (moved == NULL) return NULL;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    large_end(page);
    run_release_empty(start, slices);
    return moved;
}

void large_zero(struct page* page) {
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

void large_seal(struct page* page, size_t size) {
    page->usable = large_good_size(size);
    large_reseal(page);
}

static void set_state(const struct page* page, uint64_t value) {
    for (unsigned i = 0; KEEL_SECURE && i < LARGE_STATE_WORDS; i++) large_state(page)[i] = value;
}

void large_unseal(const struct page* page) {
    set_state(page, 0);
}

void large_reseal(const struct page* page) {
    set_state(page, large_state_value(page));
}

void large_verify_state(const struct page* page) {
    uint64_t differs = 0;
    for (unsigned i = 0; i < LARGE_STATE_WORDS; i++)
        differs |= large_state(page)[i] ^ large_state_value(page);
    if (differs == 0) return;
    panic_block(FAULT_OVERFLOW, page->start,
                (struct fault_block){.bytes = page->usable, .thread = os_thread_id()});
}

void large_release(struct page* page) {
    char* start = page->start;
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_PACKED) != 0) {
        size_t bytes = page->bytes;
        large_end(page);
        packed_release(start, bytes);
        return;
    }
    bool jumbo = (owner & PAGE_JUMBO) != 0;
    if (!jumbo) end_fresh(page);
    if (jumbo) {
        large_unseal(page);
        jumbo_release(page, reserve_admits_warm());
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
    if (bytes > page->bytes && !limit_admits(bytes - page->bytes)) return NULL;
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_PACKED) != 0 || bytes <= SLICE_BYTES) return NULL;
    if ((owner & PAGE_JUMBO) != 0) {
        // Copies a small rest, so that the whole mapping is available to the next large block.
        bool small_rest = bytes < LARGE_MOVABLE_BYTES && bytes <= page->bytes / 2;
        return small_rest ? NULL : jumbo_resize(page, bytes);
    }
    size_t slices = page->bytes / SLICE_BYTES;
    size_t wanted = slices_for(bytes);
    if (wanted > RUN_SLICES_MAX) return leave_run(page, bytes);
    if (wanted > slices && !run_extend(page->start, (unsigned)slices, (unsigned)wanted))
        return leave_run(page, bytes);
    if (wanted * SLICE_BYTES < FRESH_BYTES_MIN) end_fresh(page);
    if (wanted < slices)
        run_release(page->start + wanted * SLICE_BYTES, (unsigned)(slices - wanted));
    reserve_resize_unknown(page, wanted * SLICE_BYTES);
    return page->start;
}

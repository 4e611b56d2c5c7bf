#include "allocator/large/jumbo.h"
#include "allocator/space/window.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/policy.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/memory.h"
#include <string.h>

#define TABLE_BYTES ((size_t)2 << 20) // described by one page-table page (x86-64, arm64 with 4 KiB)

// Another thread may have unmapped the range just before. The system has given it to us, which
// orders all accesses; loading the word that jumbo_leave released expresses that order in the
// language.
static void jumbo_enter(struct page* page, uintptr_t owner, char* start, size_t bytes) {
    (void)atomic_get_acquire(&page->owner);
    KEEL_ASSERT(bytes > SLICE_BYTES && atomic_get(&page->owner) == 0);
    KEEL_ASSERT((uintptr_t)start % os_page_bytes() == 0 && page == page_of(start));
    page->start = start;
    page->bytes = bytes;
    page->block_bytes = 0;
    (void)atomic_add(&mapping_live_total, (int64_t)bytes);
    atomic_set_release(&page->owner, owner);
}

static void jumbo_leave(struct page* page) {
    KEEL_ASSERT(page->start != NULL && page->bytes > SLICE_BYTES);
    KEEL_ASSERT((atomic_get(&page->owner) & PAGE_JUMBO) != 0);
    KEEL_ASSERT(page->bytes % os_page_bytes() == 0);
    (void)atomic_sub(&mapping_live_total, (int64_t)page->bytes);
    fill_end(page->start, page->bytes);
    policy_end_sparse(page);
    page->start = NULL;
    atomic_set_release(&page->owner, 0);
}

// A mapping of at least `bytes` in a window that is described, of whole huge pages if `filled`;
// what is too much goes to the cache. Start NULL: no memory.
static struct mapping map_described(size_t bytes, size_t alignment, bool filled) {
    KEEL_ASSERT(bytes % os_page_bytes() == 0 && is_power_of_two(alignment));
    struct mapping mapping = {NULL, bytes};
    // The system aligns a mapping of whole huge pages to them by itself.
    if (filled) mapping.bytes = round_up(bytes, HUGE_SLICES * SLICE_BYTES);
    mapping.start = os_map(mapping.bytes, alignment);
    if (mapping.start == NULL) return mapping;
    if (window_for(mapping.start) == NULL) {
        (void)os_unmap(mapping.start, mapping.bytes);
        return (struct mapping){NULL, 0};
    }
    if (filled) os_prefer_huge_pages(mapping.start, mapping.bytes);
    return mapping_cache_cut(mapping, bytes);
}

void* jumbo_allocate(size_t bytes, size_t alignment, bool filled, bool* zero) {
    KEEL_ASSERT(bytes > SLICE_BYTES && is_power_of_two(alignment));
    size_t unit = os_page_bytes();
    bytes = round_up(bytes, unit);
    if (alignment < unit) alignment = unit;
    bool fills = filled;
    filled = filled && policy_may_have_huge();
    struct mapping mapping = mapping_cache_take(bytes, alignment, filled);
    *zero = mapping.start == NULL;
    if (mapping.start == NULL) mapping = map_described(bytes, alignment, filled);
    char* start = mapping.start;
    if (start == NULL) return NULL;
    KEEL_ASSERT((uintptr_t)start % alignment == 0 && mapping.bytes >= bytes);
    jumbo_enter(page_of(start), PAGE_JUMBO, start, mapping.bytes);
    if (!*zero) policy_uncache(page_of(start));
    if (*zero && !filled) {
        policy_begin_sparse(page_of(start));
        fill_watch(start, mapping.bytes, mapping.bytes);
    }
    if (*zero && fills) policy_note_mapping(mapping.bytes);
    count_event(EVENT_JUMBO_ALLOCATED, 1);
    return start;
}

void jumbo_release(struct page* page) {
    char* start = page->start;
    size_t bytes = page->bytes;
    bool sparse = page->sparse != 0;
    jumbo_leave(page); // before another thread may map the range
    policy_cache(sparse, bytes);
    mapping_cache_put((struct mapping){start, bytes});
    count_event(EVENT_JUMBO_RELEASED, 1);
}

// An address for a block that has outgrown its place, with room behind it: a block that has grown
// tends to grow again, and where the system puts a mapping there is often no room, so that a vector
// would move at every step. Nothing is kept reserved: other threads may take the place, and then
// the block is mapped elsewhere, or moves once more. The address has the same offset within the
// range of one page-table page as the old one, so that whole page-table pages move instead of
// single entries. NULL: a limited address space has no such place.
static char* place_to_grow(const char* old_start, size_t bytes) {
    KEEL_ASSERT(bytes % os_page_bytes() == 0);
    char* whole = os_find_place(TABLE_BYTES + bytes + round_up(bytes / 2, os_page_bytes()));
    if (whole == NULL) return NULL;
    return whole + (((uintptr_t)old_start - (uintptr_t)whole) & (TABLE_BYTES - 1));
}

// As place_to_grow, with the window described: what describes it is itself a mapping, which after
// the move might come to lie behind the block. Before the move it only displaces the place, perhaps
// into the window below, which is then described too.
static char* described_place(const char* old_start, size_t bytes) {
    KEEL_ASSERT(bytes > 0);
    char* place = place_to_grow(old_start, bytes);
    for (unsigned i = 0; i < 2 && place != NULL && !window_describes(place); i++) {
        if (window_for(place) == NULL) break;
        place = place_to_grow(old_start, bytes);
    }
    return place;
}

// Moves the content to a mapping of `bytes`; the old range stays mapped, all zero. NULL: nothing
// changed, but all of the old range may be resident. The place is only a preference, so nothing is
// mapped over other threads' mappings.
static char* move_to_grow(char* old_start, size_t old_bytes, size_t bytes) {
    KEEL_ASSERT(old_start != NULL && old_bytes > 0);
    char* start = os_remap_content(old_start, old_bytes, described_place(old_start, bytes));
    if (start == NULL) return NULL;
    bool described = window_for(start) != NULL;
    if (described && os_remap(start, old_bytes, bytes)) return start;
    memcpy(old_start, start, old_bytes); // unlike moving back, this needs no address space
    if (described)
        mapping_cache_unmap((struct mapping){start, old_bytes});
    else
        (void)os_unmap(start, old_bytes);
    return NULL;
}

// Copies the content to a new mapping with room behind it, where the system cannot move it: before
// Linux 5.7, or if the block is more than one of its mappings. NULL: nothing changed.
static char* copy_to_grow(const char* old_start, size_t old_bytes, size_t bytes) {
    KEEL_ASSERT(old_bytes < bytes);
    char* start = place_to_grow(old_start, bytes);
    if (start == NULL || os_map_at(start, bytes) != OS_PLACED)
        start = os_map(bytes, os_page_bytes());
    if (start == NULL) return NULL;
    if (window_for(start) == NULL) {
        (void)os_unmap(start, bytes);
        return NULL;
    }
    return memcpy(start, old_start, old_bytes);
}

// Cuts the block where it is; what is cut off stays warm. False: too little to be worth it.
static bool jumbo_shrink(struct page* page, size_t bytes) {
    KEEL_ASSERT(bytes < page->bytes);
    size_t used = round_up(bytes, SLICE_BYTES);
    char* rest = page->start + used;
    if (page->bytes < used + MAPPING_CUT_MIN || window_for(rest) == NULL) return false;
    size_t rest_bytes = page->bytes - used;
    (void)atomic_sub(&mapping_live_total, (int64_t)rest_bytes);
    policy_resize_large(page, used);
    policy_cache(page->sparse != 0, rest_bytes);
    mapping_cache_put((struct mapping){rest, rest_bytes});
    return true;
}

// The block again, perhaps elsewhere and with another size.
static void* enter_again(uintptr_t owner, char* start, size_t bytes, bool sparse) {
    jumbo_enter(page_of(start), owner, start, bytes);
    if (sparse) policy_begin_sparse(page_of(start));
    return start;
}

static void* resize_mapping(struct page* page, size_t bytes) {
    KEEL_ASSERT(bytes != page->bytes && bytes % os_page_bytes() == 0);
    uintptr_t owner = atomic_get(&page->owner);
    char* old_start = page->start;
    size_t old_bytes = page->bytes;
    bool doubles = old_bytes >= HUGE_SLICES * SLICE_BYTES && bytes >= old_bytes + old_bytes / 2;
    bool sparse = page->sparse != 0;
    bool filled = (sparse || doubles) && fill_is_seen(old_start, old_bytes);
    if (filled) sparse = false;
    jumbo_leave(page); // before another thread may map the range or its tail
    struct mapping warm = {old_start, old_bytes};
    if (bytes > old_bytes && mapping_cache_extend(&warm, bytes))
        return enter_again(owner, warm.start, warm.bytes, sparse);
    // A copy takes no page fault, but would make all of a sparse block resident.
    if (bytes > old_bytes && !sparse && mapping_cache_has(bytes)) {
        (void)enter_again(owner, old_start, old_bytes, sparse);
        return NULL;
    }
    char* start = old_start;
    if (!os_remap(old_start, old_bytes, bytes)) {
        start = move_to_grow(old_start, old_bytes, bytes);
        if (start == NULL && bytes > old_bytes) start = copy_to_grow(old_start, old_bytes, bytes);
        if (start == NULL) {
            (void)enter_again(owner, old_start, old_bytes, sparse);
            return NULL;
        }
        mapping_cache_unmap((struct mapping){old_start, old_bytes});
    }
    // The grown part of a filled block is on huge pages where it covers whole ones.
    if (filled && doubles && policy_may_have_huge()) os_prefer_huge_pages(start, bytes);
    return enter_again(owner, start, bytes, sparse);
}

void* jumbo_resize(struct page* page, size_t bytes) {
    KEEL_ASSERT((atomic_get(&page->owner) & PAGE_JUMBO) != 0);
    KEEL_ASSERT(bytes > SLICE_BYTES);
    char* old_start = page->start;
    bytes = round_up(bytes, os_page_bytes());
    if (bytes == page->bytes) return old_start;
    if (bytes < page->bytes && jumbo_shrink(page, bytes)) return old_start;
    return resize_mapping(page, bytes);
}

void* jumbo_adopt(uintptr_t heap, char* old_start, size_t old_bytes, size_t bytes) {
    KEEL_ASSERT(bytes >= old_bytes && (heap & PAGE_FLAGS) == 0);
    bytes = round_up(bytes, os_page_bytes());
    char* start = move_to_grow(old_start, old_bytes, bytes);
    if (start == NULL) return NULL;
    jumbo_enter(page_of(start), heap | PAGE_JUMBO, start, bytes);
    count_event(EVENT_JUMBO_ALLOCATED, 1);
    return start;
}

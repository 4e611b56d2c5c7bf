#include "allocator/warm/mapping_cache.h"
#include "allocator/space/index_set.h"
#include "allocator/space/page_map.h"
#include "allocator/space/page_metadata.h"
#include "allocator/space/window.h"
#include "base/bits.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"

// `bytes` and `put_ms` are hints until the start has been taken or marked: the true size is in the
// metadata of the mapping's first slice, which belongs to the thread that did it.
static KEEL_LARGER struct {
    atomic_word start; // 0: free; | MARKED: a thread returns the mapping, which no other one takes
    atomic_word bytes;
    atomic_bits put_ms;
} places[MAPPING_PLACES];
static struct index_set used; // the places that may have a mapping, by the protocol of index_set.h
atomic_signed mapping_cache_total;
atomic_signed mapping_live_total;

#define PIECES 8u // in which a mapping is discarded
#define MARKED ((uintptr_t)1)
#define CLEAR_WAITS 1000u
#define CLEAR_WAIT_US 50u

static const struct mapping mapping_none = {NULL, 0};

// A hint. NULL: the place is free, or its mapping cannot be taken.
static char* start_at(unsigned index) {
    KEEL_ASSERT(index < MAPPING_PLACES);
    uintptr_t start = atomic_get(&places[index].start);
    return (start & MARKED) != 0 ? NULL : (char*)start;
}

static unsigned first_place(void) {
    return index_set_next(&used, 0);
}
static unsigned next_place(unsigned index) {
    return index_set_next(&used, index + 1);
}

// The place becomes free, and its member of `used` with it.
static void place_clear(unsigned index) {
    KEEL_ASSERT(index < MAPPING_PLACES);
    (void)index_set_remove(&used, index);
    if (atomic_get_ordered(&places[index].start) != 0) (void)index_set_add(&used, index);
}

static struct mapping place_take(unsigned index) {
    KEEL_ASSERT(index < MAPPING_PLACES);
    char* start = start_at(index);
    uintptr_t expected = (uintptr_t)start;
    if (start != NULL && !atomic_try_ordered(&places[index].start, &expected, 0)) start = NULL;
    place_clear(index);
    if (start == NULL) return mapping_none;
    struct mapping mapping = {start, page_of(start)->bytes};
    KEEL_ASSERT(mapping.bytes > SLICE_BYTES && mapping.bytes % os_page_bytes() == 0);
    KEEL_ASSERT(atomic_get(&page_of(start)->owner) == 0);
    (void)atomic_sub(&mapping_cache_total, (int64_t)mapping.bytes);
    return mapping;
}

static bool place_fill(unsigned index, struct mapping mapping, uint64_t put_ms) {
    KEEL_ASSERT(index < MAPPING_PLACES);
    KEEL_ASSERT((uintptr_t)mapping.start % os_page_bytes() == 0 &&
                mapping.bytes % os_page_bytes() == 0);
    uintptr_t expected = 0;
    (void)atomic_add(&mapping_cache_total, (int64_t)mapping.bytes);
    // Ordered, as index_set.h demands: a thread that removes the place looks at this word again.
    if (!atomic_try_ordered(&places[index].start, &expected, (uintptr_t)mapping.start)) {
        (void)atomic_sub(&mapping_cache_total, (int64_t)mapping.bytes);
        return false;
    }
    atomic_set(&places[index].bytes, mapping.bytes);
    atomic_set(&places[index].put_ms, put_ms);
    (void)index_set_add(&used, index);
    return true;
}

// Only a mapping that is larger than a slice is the only one that begins in its first slice, whose
// metadata has its size.
static bool place_put(struct mapping mapping, uint64_t put_ms) {
    KEEL_ASSERT(mapping.bytes > SLICE_BYTES && window_find(mapping.start) != NULL);
    KEEL_ASSERT(atomic_get(&page_of(mapping.start)->owner) == 0);
    page_of(mapping.start)->bytes = mapping.bytes;
    for (unsigned word = 0; word < MAPPING_PLACES / 64; word++) {
        uint64_t unused = ~atomic_get(&used.words[word]);
        for (; unused != 0; unused &= unused - 1) {
            if (place_fill(word * 64 + bit_lowest(unused), mapping, put_ms)) return true;
        }
    }
    return false;
}

// The system refuses to unmap a part of one of its mappings if the process has as many as it may
// have. The range stays here then, without its memory, unless it is too small.
static void unmap_or_put(struct mapping mapping) {
    KEEL_ASSERT(mapping.start != NULL && mapping.bytes > 0);
    KEEL_ASSERT((uintptr_t)mapping.start % os_page_bytes() == 0);
    if (os_unmap(mapping.start, mapping.bytes) || mapping.bytes <= SLICE_BYTES) return;
    (void)place_put(mapping, os_clock_ms());
}

static void put_or_unmap(struct mapping mapping, uint64_t put_ms) {
    KEEL_ASSERT(mapping.start != NULL);
    if (!place_put(mapping, put_ms)) unmap_or_put(mapping);
}

void mapping_cache_unmap(struct mapping mapping) {
    unmap_or_put(mapping);
}

// Joins `mapping` with a cached neighbour. True: it has grown.
static bool join_with(unsigned index, struct mapping* mapping) {
    KEEL_ASSERT(index < MAPPING_PLACES && mapping->bytes > SLICE_BYTES);
    char* start = start_at(index);
    size_t bytes = atomic_get(&places[index].bytes);
    if (start == NULL) return false;
    if (start != mapping->start + mapping->bytes && start + bytes != mapping->start) return false;
    struct mapping other = place_take(index);
    if (other.start == NULL) return false;
    if (other.start == mapping->start + mapping->bytes) {
        mapping->bytes += other.bytes;
        return true;
    }
    if (other.start + other.bytes == mapping->start) {
        *mapping = (struct mapping){other.start, other.bytes + mapping->bytes};
        return true;
    }
    put_or_unmap(other, os_clock_ms()); // another mapping by now
    return false;
}

void mapping_cache_put(struct mapping mapping) {
    KEEL_ASSERT(mapping.start != NULL && mapping.bytes > SLICE_BYTES);
    KEEL_ASSERT(atomic_get(&page_of(mapping.start)->owner) == 0);
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i))
        (void)join_with(i, &mapping);
    put_or_unmap(mapping, os_clock_ms());
}

// Bytes of the mapping from its first multiple of `alignment` on.
static size_t usable_bytes(struct mapping mapping, size_t alignment) {
    KEEL_ASSERT(is_power_of_two(alignment));
    size_t head = round_up((uintptr_t)mapping.start, alignment) - (uintptr_t)mapping.start;
    return head < mapping.bytes ? mapping.bytes - head : 0;
}

// The place whose mapping fits best: the smallest that is large enough, else the largest.
static unsigned place_for(size_t bytes, size_t alignment) {
    KEEL_ASSERT(bytes > 0 && is_power_of_two(alignment));
    unsigned best = MAPPING_PLACES;
    size_t best_bytes = 0;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        struct mapping hint = {start_at(i), atomic_get(&places[i].bytes)};
        if (hint.start == NULL) continue;
        size_t here = usable_bytes(hint, alignment);
        bool better = best_bytes >= bytes ? here >= bytes && here < best_bytes : here > best_bytes;
        if (!better) continue;
        best = i;
        best_bytes = here;
    }
    return best;
}

static struct mapping take_for(size_t bytes, size_t alignment) {
    if (atomic_get(&mapping_cache_total) <= 0) return mapping_none;
    unsigned index = place_for(bytes, alignment);
    return index < MAPPING_PLACES ? place_take(index) : mapping_none;
}

bool mapping_cache_has(size_t bytes) {
    KEEL_ASSERT(bytes > 0);
    if (mapping_cache_bytes() < bytes) return false;
    unsigned index = place_for(bytes, 1);
    return index != MAPPING_PLACES && atomic_get(&places[index].bytes) >= bytes;
}

// The cut is at a multiple of the slice size from the start, so that no two mappings begin in one
// slice.
struct mapping mapping_cache_cut(struct mapping mapping, size_t bytes) {
    KEEL_ASSERT(mapping.start != NULL && bytes <= mapping.bytes);
    size_t used = round_up(bytes, SLICE_BYTES);
    if (mapping.bytes < used + MAPPING_CUT_MIN) return mapping;
    char* rest = mapping.start + used;
    if (window_for(rest) == NULL) return mapping;
    put_or_unmap((struct mapping){rest, mapping.bytes - used}, os_clock_ms());
    mapping.bytes = used;
    return mapping;
}

// Cuts off the part before the first multiple of `alignment`. False: the system refuses.
static bool cut_head(struct mapping* mapping, size_t alignment) {
    KEEL_ASSERT(usable_bytes(*mapping, alignment) > 0);
    size_t head = mapping->bytes - usable_bytes(*mapping, alignment);
    struct mapping before = {mapping->start, head};
    if (head >= MAPPING_CUT_MIN)
        put_or_unmap(before, os_clock_ms());
    else if (head > 0 && !os_unmap(before.start, head))
        return false;
    *mapping = (struct mapping){mapping->start + head, mapping->bytes - head};
    return true;
}

// By whole huge pages: their rest goes to the cache.
static struct mapping grow_to(struct mapping mapping, size_t bytes, bool huge) {
    KEEL_ASSERT(bytes > mapping.bytes);
    size_t whole = huge ? round_up(bytes, HUGE_SLICES * SLICE_BYTES) : bytes;
    char* start = os_remap_anywhere(mapping.start, mapping.bytes, whole);
    if (start == NULL) {
        put_or_unmap(mapping, os_clock_ms());
        return mapping_none;
    }
    if (window_for(start) == NULL) {
        (void)os_unmap(start, whole);
        return mapping_none;
    }
    if (huge) os_prefer_huge_pages(start, whole);
    return mapping_cache_cut((struct mapping){start, whole}, bytes);
}

struct mapping mapping_cache_take(size_t bytes, size_t alignment, bool huge) {
    KEEL_ASSERT(bytes > SLICE_BYTES && bytes % os_page_bytes() == 0);
    struct mapping mapping = take_for(bytes, alignment);
    if (mapping.start == NULL) return mapping;
    if (usable_bytes(mapping, alignment) >= bytes) {
        char* aligned = (char*)round_up((uintptr_t)mapping.start, alignment);
        if (window_for(aligned) != NULL && cut_head(&mapping, alignment))
            return mapping_cache_cut(mapping, bytes);
    } else if (alignment <= os_page_bytes()) {
        return grow_to(mapping, bytes, huge);
    }
    put_or_unmap(mapping, os_clock_ms());
    return mapping_none;
}

bool mapping_cache_extend(struct mapping* mapping, size_t bytes) {
    KEEL_ASSERT(bytes > mapping->bytes && bytes % os_page_bytes() == 0);
    char* end = mapping->start + mapping->bytes;
    if (atomic_get(&mapping_cache_total) <= 0) return false;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        if (start_at(i) != end) continue;
        if (mapping->bytes + atomic_get(&places[i].bytes) < bytes) return false;
        struct mapping behind = place_take(i);
        if (behind.start == end && mapping->bytes + behind.bytes >= bytes) {
            *mapping = mapping_cache_cut(
                (struct mapping){mapping->start, mapping->bytes + behind.bytes}, bytes);
            return true;
        }
        if (behind.start != NULL) put_or_unmap(behind, os_clock_ms());
        return false;
    }
    return false;
}

// Unmapping holds the lock of all mappings of the process until the pages are returned, 1 ms for 16
// MiB; discarding them first does not. At most PIECES pieces, which end at multiples of huge pages.
// False: the system refuses the first one, because the program has locked it.
static bool discard_in_pieces(char* start, size_t bytes) {
    KEEL_ASSERT(start != NULL && bytes > 0);
    const size_t huge = HUGE_SLICES * SLICE_BYTES;
    const size_t piece = round_up(bytes / PIECES + 1, huge);
    char* end = start + bytes;
    for (char* at = start; at < end;) {
        char* next = (char*)round_down((uintptr_t)at, huge) + piece;
        if (next > end) next = end;
        if (!os_discard(at, (size_t)(next - at)) && at == start) return false;
        at = next;
    }
    return true;
}

// Returns the last `cut` bytes of the mapping of a place that the caller has marked. Until its
// memory is returned the whole mapping stays in the place: a child of fork that has no such thread
// finds it there. A range that the child finds must be mapped, so it leaves the place before it is
// unmapped. Locked memory stays.
static void place_cut(unsigned index, struct mapping mapping, size_t cut) {
    KEEL_ASSERT(cut > 0 && cut <= mapping.bytes);
    KEEL_ASSERT(cut % os_page_bytes() == 0);
    char* tail = mapping.start + mapping.bytes - cut;
    if (!discard_in_pieces(tail, cut)) {
        atomic_set(&places[index].put_ms, os_clock_ms());
        atomic_set_release(&places[index].start, (uintptr_t)mapping.start);
        return;
    }
    if (cut == mapping.bytes) {
        (void)atomic_sub(&mapping_cache_total, (int64_t)cut);
        (void)atomic_swap(&places[index].start, 0);
        place_clear(index);
        unmap_or_put(mapping);
        return;
    }
    struct page* page = page_of(mapping.start);
    KEEL_ASSERT(mapping.bytes - cut > SLICE_BYTES);
    page->bytes -= cut;
    (void)atomic_sub(&mapping_cache_total, (int64_t)cut);
    if (!os_unmap(tail, cut)) { // it stays, without its memory
        page->bytes = mapping.bytes;
        (void)atomic_add(&mapping_cache_total, (int64_t)cut);
        atomic_set(&places[index].put_ms, os_clock_ms());
    }
    atomic_set(&places[index].bytes, page->bytes);
    atomic_set_release(&places[index].start, (uintptr_t)mapping.start);
}

size_t mapping_cache_age(uint64_t now_ms, size_t bytes_max) {
    KEEL_ASSERT(bytes_max > 0);
    if (atomic_get(&mapping_cache_total) <= 0) return 0;
    int64_t delay = option_get(OPTION_RESET_DELAY);
    if (delay < 0) return 0;
    unsigned oldest = MAPPING_PLACES;
    uint64_t oldest_ms = UINT64_MAX;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        uint64_t put_ms = atomic_get(&places[i].put_ms);
        if (start_at(i) == NULL || now_ms < put_ms + (uint64_t)delay) continue;
        if (put_ms >= oldest_ms) continue;
        oldest = i;
        oldest_ms = put_ms;
    }
    if (oldest == MAPPING_PLACES) return 0;
    uintptr_t start = (uintptr_t)start_at(oldest);
    if (start == 0 || !atomic_try_ordered(&places[oldest].start, &start, start | MARKED)) return 0;
    struct mapping mapping = {(char*)start, page_of((char*)start)->bytes};
    size_t cut = mapping.bytes < bytes_max + MAPPING_CUT_MIN ? mapping.bytes : bytes_max;
    place_cut(oldest, mapping, cut);
    return cut;
}

// Takes the mapping also if another thread is returning a part of it, which takes that thread some
// ms. The number of waits is limited, because this may be a copy of the process without the thread.
static struct mapping place_take_all(unsigned index, unsigned* waits) {
    static atomic_state never;
    struct mapping mapping = place_take(index);
    while (mapping.start == NULL && atomic_get(&places[index].start) != 0 && *waits > 0) {
        os_wait(&never, 0, CLEAR_WAIT_US);
        --*waits;
        mapping = place_take(index);
    }
    return mapping;
}

void mapping_cache_clear(void) {
    unsigned waits = CLEAR_WAITS;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        struct mapping mapping = place_take_all(i, &waits);
        if (mapping.start != NULL) unmap_or_put(mapping);
    }
}

void mapping_cache_forget(void) {
    if (atomic_get(&mapping_cache_total) == 0) return;
    int64_t total = 0;
    for (unsigned i = 0; i < MAPPING_PLACES; i++) {
        uintptr_t start = atomic_get(&places[i].start) & ~MARKED;
        if (start == 0) continue;
        atomic_set(&places[i].start, start);
        atomic_set(&places[i].bytes, page_of((char*)start)->bytes);
        total += (int64_t)page_of((char*)start)->bytes;
        (void)index_set_add(&used, i);
    }
    atomic_set(&mapping_cache_total, total);
}

bool mapping_cache_check(void) {
    if (!KEEL_CHECKS) return true;
    int64_t total = 0;
    for (unsigned i = 0; i < MAPPING_PLACES; i++) {
        const char* start = start_at(i);
        bool member = (atomic_get(&used.words[i / 64]) >> (i % 64) & 1) != 0;
        if (start == NULL) {
            if (atomic_get(&places[i].start) != 0) return false;
            continue;
        }
        const struct page* page = page_of(start);
        if (!member || window_find(start) == NULL || atomic_get(&page->owner) != 0) return false;
        if (page->bytes <= SLICE_BYTES || page->bytes % os_page_bytes() != 0) return false;
        if (page->bytes != atomic_get(&places[i].bytes)) return false;
        total += (int64_t)page->bytes;
    }
    return total == atomic_get(&mapping_cache_total);
}

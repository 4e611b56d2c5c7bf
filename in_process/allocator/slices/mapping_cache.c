#include "allocator/slices/mapping_cache.h"
#include "allocator/slices/index_set.h"
#include "allocator/slices/page_map.h"
#include "allocator/slices/page_metadata.h"
#include "allocator/slices/window.h"
#include "base/bits.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/memory.h"
#include "os/process.h"

// `bytes` and `put_ms` are hints until the start has been taken: the true size is in the metadata
// of the mapping's first slice, which belongs to the thread that took it.
static KEEL_LARGER struct {
    atomic_word start; // 0: free
    atomic_word bytes;
    atomic_bits put_ms;
} places[MAPPING_PLACES];
static struct index_set used; // the places that may have a mapping, by the protocol of index_set.h
atomic_signed mapping_cache_total;
atomic_signed mapping_live_total;

#define PIECES 8u // in which a mapping is discarded

static const struct mapping mapping_none = {NULL, 0};

static unsigned first_place(void) {
    return index_set_next(&used, 0);
}
static unsigned next_place(unsigned index) {
    return index_set_next(&used, index + 1);
}

static struct mapping place_take(unsigned index) {
    char* start = (char*)atomic_swap(&places[index].start, 0);
    (void)index_set_remove(&used, index);
    if (atomic_get_ordered(&places[index].start) != 0) (void)index_set_add(&used, index);
    if (start == NULL) return mapping_none;
    struct mapping mapping = {start, page_of(start)->bytes};
    (void)atomic_sub(&mapping_cache_total, (int64_t)mapping.bytes);
    return mapping;
}

static bool place_fill(unsigned index, struct mapping mapping, uint64_t put_ms) {
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

static bool place_put(struct mapping mapping, uint64_t put_ms) {
    page_of(mapping.start)->bytes = mapping.bytes;
    for (unsigned word = 0; word < MAPPING_PLACES / 64; word++) {
        uint64_t unused = ~atomic_get(&used.words[word]);
        for (; unused != 0; unused &= unused - 1) {
            if (place_fill(word * 64 + bit_lowest(unused), mapping, put_ms)) return true;
        }
    }
    return false;
}

static void put_or_unmap(struct mapping mapping, uint64_t put_ms) {
    if (!place_put(mapping, put_ms)) os_unmap(mapping.start, mapping.bytes);
}

// Joins `mapping` with a cached neighbour. True: it has grown.
static bool join_with(unsigned index, struct mapping* mapping) {
    char* start = (char*)atomic_get(&places[index].start);
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
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i))
        (void)join_with(i, &mapping);
    put_or_unmap(mapping, os_clock_ms());
}

// Bytes of the mapping from its first multiple of `alignment` on.
static size_t usable_bytes(struct mapping mapping, size_t alignment) {
    size_t head = round_up((uintptr_t)mapping.start, alignment) - (uintptr_t)mapping.start;
    return head < mapping.bytes ? mapping.bytes - head : 0;
}

// The place whose mapping fits best: the smallest that is large enough, else the largest.
static unsigned place_for(size_t bytes, size_t alignment) {
    unsigned best = MAPPING_PLACES;
    size_t best_bytes = 0;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        struct mapping hint = {(char*)atomic_get(&places[i].start), atomic_get(&places[i].bytes)};
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

bool mapping_cache_has(size_t bytes, size_t bytes_max) {
    if (mapping_cache_bytes() < bytes) return false;
    unsigned index = place_for(bytes, 1);
    if (index == MAPPING_PLACES) return false;
    size_t here = atomic_get(&places[index].bytes);
    return here >= bytes && here <= bytes_max;
}

// The cut is at a multiple of the slice size from the start, so that no two mappings begin in one
// slice.
struct mapping mapping_cache_cut(struct mapping mapping, size_t bytes) {
    size_t used = round_up(bytes, SLICE_BYTES);
    if (mapping.bytes < used + MAPPING_CUT_MIN) return mapping;
    char* rest = mapping.start + used;
    if (window_for(rest) == NULL) return mapping;
    put_or_unmap((struct mapping){rest, mapping.bytes - used}, os_clock_ms());
    mapping.bytes = used;
    return mapping;
}

// Cuts off the part before the first multiple of `alignment`.
static struct mapping cut_head(struct mapping mapping, size_t alignment) {
    size_t head = mapping.bytes - usable_bytes(mapping, alignment);
    if (head == 0) return mapping;
    struct mapping before = {mapping.start, head};
    mapping = (struct mapping){mapping.start + head, mapping.bytes - head};
    if (head >= MAPPING_CUT_MIN)
        put_or_unmap(before, os_clock_ms());
    else
        os_unmap(before.start, before.bytes);
    return mapping;
}

// By whole huge pages: their rest goes to the cache.
static struct mapping grow_to(struct mapping mapping, size_t bytes, bool huge) {
    size_t whole = huge ? round_up(bytes, HUGE_SLICES * SLICE_BYTES) : bytes;
    char* start = os_remap_anywhere(mapping.start, mapping.bytes, whole);
    if (start == NULL) {
        put_or_unmap(mapping, os_clock_ms());
        return mapping_none;
    }
    if (window_for(start) == NULL) {
        os_unmap(start, whole);
        return mapping_none;
    }
    if (huge) os_prefer_huge_pages(start, whole);
    return mapping_cache_cut((struct mapping){start, whole}, bytes);
}

struct mapping mapping_cache_take(size_t bytes, size_t alignment, bool huge) {
    struct mapping mapping = take_for(bytes, alignment);
    if (mapping.start == NULL) return mapping;
    if (usable_bytes(mapping, alignment) >= bytes) {
        char* aligned = (char*)round_up((uintptr_t)mapping.start, alignment);
        if (window_for(aligned) != NULL)
            return mapping_cache_cut(cut_head(mapping, alignment), bytes);
    } else if (alignment <= os_page_bytes()) {
        return grow_to(mapping, bytes, huge);
    }
    put_or_unmap(mapping, os_clock_ms());
    return mapping_none;
}

bool mapping_cache_extend(struct mapping* mapping, size_t bytes) {
    char* end = mapping->start + mapping->bytes;
    if (atomic_get(&mapping_cache_total) <= 0) return false;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        if ((char*)atomic_get(&places[i].start) != end) continue;
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

struct mapping mapping_cache_move(struct mapping old, size_t bytes) {
    KEEL_ASSERT(bytes >= old.bytes);
    if (!mapping_cache_has(bytes, SIZE_MAX)) return mapping_none;
    struct mapping target = take_for(bytes, 1);
    if (target.start == NULL) return target;
    if (target.bytes < bytes) {
        put_or_unmap(target, os_clock_ms());
        return mapping_none;
    }
    target = mapping_cache_cut(target, bytes);
    if (os_remap_to(old.start, old.bytes, target.start, old.bytes)) return target;
    // The system may have unmapped the start of the target before it failed, and that range may
    // belong to other code by now: only the rest is certainly Keel's.
    size_t lost = round_up(old.bytes, SLICE_BYTES);
    if (target.bytes > lost && window_for(target.start + lost) != NULL)
        put_or_unmap((struct mapping){target.start + lost, target.bytes - lost}, os_clock_ms());
    return mapping_none;
}

// Unmapping holds the lock of all mappings of the process until the pages are returned, 1 ms for 16
// MiB; discarding them first does not. At most PIECES pieces, which end at multiples of
// huge pages.
static void unmap_in_pieces(char* start, size_t bytes) {
    const size_t huge = HUGE_SLICES * SLICE_BYTES;
    const size_t piece = round_up(bytes / PIECES + 1, huge);
    char* end = start + bytes;
    for (char* at = start; bytes > piece && at < end;) {
        char* next = (char*)round_down((uintptr_t)at, huge) + piece;
        if (next > end) next = end;
        (void)os_discard(at, (size_t)(next - at));
        at = next;
    }
    os_unmap(start, bytes);
}

size_t mapping_cache_age(uint64_t now_ms, size_t bytes_max) {
    if (atomic_get(&mapping_cache_total) <= 0) return 0;
    int64_t delay = option_get(OPTION_RESET_DELAY);
    if (delay < 0) return 0;
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        uint64_t put_ms = atomic_get(&places[i].put_ms);
        if (atomic_get(&places[i].start) == 0 || now_ms < put_ms + (uint64_t)delay) continue;
        struct mapping mapping = place_take(i);
        if (mapping.start == NULL) continue;
        size_t cut = mapping.bytes < bytes_max + MAPPING_CUT_MIN ? mapping.bytes : bytes_max;
        mapping.bytes -= cut;
        unmap_in_pieces(mapping.start + mapping.bytes, cut);
        if (mapping.bytes > 0) put_or_unmap(mapping, put_ms);
        return cut;
    }
    return 0;
}

void mapping_cache_clear(void) {
    for (unsigned i = first_place(); i < MAPPING_PLACES; i = next_place(i)) {
        struct mapping mapping = place_take(i);
        if (mapping.start != NULL) os_unmap(mapping.start, mapping.bytes);
    }
}

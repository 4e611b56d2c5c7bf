#include "allocator/arena/region.h"
#include "base/bits.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/huge.h"
#include "os/memory.h"

#define NOWHERE SIZE_MAX
#define ADDRESSES_END ((uintptr_t)WINDOW_COUNT * WINDOW_BYTES)

static struct region regions[REGIONS_MAX];
static struct os_lock table_lock; // which places hold a region; before a region's lock
atomic_state regions_in_use;

static const struct run run_none = {NULL, false, false};

static size_t words_of(size_t slices) {
    return (slices + 63) / 64;
}

// --- Bits ----------------------------------------------------------------------------------------

static void bits_set(uint64_t* bits, size_t from, size_t count, bool value) {
    while (count > 0) {
        unsigned first = (unsigned)(from % 64);
        unsigned here = 64 - first < count ? 64 - first : (unsigned)count;
        uint64_t mask = bit_range(first, here);
        bits[from / 64] = value ? bits[from / 64] | mask : bits[from / 64] & ~mask;
        from += here;
        count -= here;
    }
}

// The first bit in [from, end) that is `value`, or `end`. Each word that it looks at is taken off
// *budget; NOWHERE when that is used up.
static size_t bit_next(const uint64_t* bits, size_t from, size_t end, bool value, size_t* budget) {
    for (size_t at = from; at < end; at = (at / 64 + 1) * 64) {
        if (*budget == 0) return NOWHERE;
        --*budget;
        uint64_t word = (value ? bits[at / 64] : ~bits[at / 64]) & (~UINT64_C(0) << (at % 64));
        if (word == 0) continue;
        size_t found = at / 64 * 64 + bit_lowest(word);
        return found < end ? found : end;
    }
    return end;
}

static bool bits_are_all(const uint64_t* bits, size_t from, size_t count) {
    size_t budget = SIZE_MAX;
    return bit_next(bits, from, from + count, false, &budget) == from + count;
}

// --- Taking and giving, with the lock held -------------------------------------------------------

// The first slice of a free run of that length, whose address is aligned; NOWHERE if there is none.
static size_t search(struct region* region, size_t slices, size_t alignment, size_t budget) {
    size_t end = atomic_get(&region->slices);
    size_t origin = atomic_get(&region->start) / SLICE_BYTES;
    size_t at = bit_next(region->free, region->first_free, end, true, &budget);
    if (at == NOWHERE) return NOWHERE;
    region->first_free = at;
    while (at < end) {
        size_t first = round_up(origin + at, alignment) - origin;
        if (first >= end || slices > end - first) return NOWHERE;
        size_t stop = bit_next(region->free, at, first + slices, false, &budget);
        if (stop == NOWHERE) return NOWHERE;
        if (stop == first + slices) return first;
        at = bit_next(region->free, stop, end, true, &budget);
        if (at == NOWHERE) return NOWHERE;
    }
    return NOWHERE;
}

static struct run take(struct region* region, size_t slices, size_t alignment, size_t budget) {
    if (atomic_get(&region->start) == 0) return run_none;
    size_t first = search(region, slices, alignment, budget);
    if (first == NOWHERE) return run_none;
    bool zero = bits_are_all(region->zero, first, slices);
    bits_set(region->free, first, slices, false);
    bits_set(region->zero, first, slices, false);
    atomic_bump(&region->live, slices);
    char* start = (char*)atomic_get(&region->start) + first * SLICE_BYTES;
    return (struct run){start, zero, region->populated};
}

struct run region_take(struct region* region, size_t slices, size_t alignment_slices) {
    os_lock_acquire(&region->lock);
    struct run run = take(region, slices, alignment_slices, SIZE_MAX);
    os_lock_release(&region->lock);
    return run;
}

static struct run take_if_idle(struct region* region, size_t slices, size_t alignment) {
    struct run run = run_none;
    if (!os_lock_try(&region->lock)) return run;
    if (!region->exclusive)
        run = take(region, slices, alignment, REGION_WORDS_SHARED + slices / 64);
    os_lock_release(&region->lock);
    return run;
}

unsigned region_nodes(void) {
    static atomic_state found; // written with the same value by whoever comes first
    int64_t wanted = option_get(OPTION_USE_NUMA_NODES);
    if (wanted > 0) return wanted < 1024 ? (unsigned)wanted : 1024;
    if (atomic_get(&found) == 0) atomic_set(&found, os_numa_nodes());
    return atomic_get(&found);
}

static bool is_near(const struct region* region, int node) {
    return region->node == REGION_ANY_NODE || node == REGION_ANY_NODE || region->node == node;
}

struct run region_take_any(size_t slices, size_t alignment_slices) {
    int node = region_nodes() > 1 ? (int)(os_numa_node() % region_nodes()) : REGION_ANY_NODE;
    unsigned count = atomic_get(&regions_in_use);
    for (unsigned pass = 0; pass < (node == REGION_ANY_NODE ? 1u : 2u); pass++) {
        for (unsigned i = 0; i < count; i++) {
            if (atomic_get_acquire(&regions[i].start) == 0) continue;
            if (is_near(&regions[i], node) != (pass == 0)) continue;
            struct run run = take_if_idle(&regions[i], slices, alignment_slices);
            if (run.start != NULL) return run;
        }
    }
    return run_none;
}

void region_give(struct region* region, char* start, size_t slices) {
    os_lock_acquire(&region->lock);
    size_t first = (size_t)(start - (char*)atomic_get(&region->start)) / SLICE_BYTES;
    size_t budget = SIZE_MAX;
    KEEL_REQUIRE(bit_next(region->free, first, first + slices, true, &budget) == first + slices,
                 start);
    bits_set(region->free, first, slices, true);
    if (first < region->first_free) region->first_free = first;
    atomic_set(&region->live, atomic_get(&region->live) - slices);
    os_lock_release(&region->lock);
}

// --- Which regions there are ---------------------------------------------------------------------

struct region* region_find(const void* address) {
    unsigned count = atomic_get(&regions_in_use);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t start = atomic_get_acquire(&regions[i].start);
        size_t bytes = atomic_get(&regions[i].slices) * SLICE_BYTES;
        if (start != 0 && (uintptr_t)address - start < bytes) return &regions[i];
    }
    return NULL;
}

size_t region_live_slices(void) {
    size_t slices = 0;
    unsigned count = atomic_get(&regions_in_use);
    for (unsigned i = 0; i < count; i++) slices += atomic_get(&regions[i].live);
    return slices;
}

// True if something in the range is Keel's as it is, as far as can be told: inside a mapping of
// its own (arena/jumbo.h) only the block's start can.
static bool is_ours(uintptr_t start, size_t slices) {
    for (size_t i = 0; i < slices; i++) {
        const void* slice = (const void*)(start + i * SLICE_BYTES);
        if (region_find(slice) != NULL || window_owns(slice)) return true;
        if (atomic_get(&page_of(slice)->owner) != 0) return true;
    }
    return false;
}

static bool windows_make(uintptr_t start, size_t slices) {
    uintptr_t last = start + (slices - 1) * SLICE_BYTES;
    for (uintptr_t at = start / WINDOW_BYTES; at <= last / WINDOW_BYTES; at++) {
        if (window_for((const void*)(at * WINDOW_BYTES)) == NULL) return false;
    }
    return true;
}

static size_t bits_bytes(size_t slices) {
    return round_up(2 * words_of(slices) * sizeof(uint64_t), os_page_bytes());
}

static void region_begin(struct region* region, const struct region_memory* memory, uintptr_t start,
                         size_t slices, uint64_t* bits) {
    os_lock_acquire(&region->lock);
    region->free = bits;
    region->zero = bits + words_of(slices);
    bits_set(region->free, 0, slices, true);
    if (memory->zero) bits_set(region->zero, 0, slices, true);
    region->first_free = 0;
    atomic_set(&region->heaps, 0);
    region->mapping = memory->mapped ? memory->start : NULL;
    region->mapping_bytes = memory->bytes;
    region->node = memory->node;
    region->exclusive = memory->exclusive;
    region->populated = memory->populated;
    atomic_set(&region->live, 0);
    atomic_set(&region->slices, slices);
    atomic_set_release(&region->start, start);
    os_lock_release(&region->lock);
}

// With the table's lock held.
static enum region_verdict place_take(const struct region_memory* memory, uintptr_t start,
                                      size_t slices, uint64_t* bits, struct region** region) {
    if (is_ours(start, slices)) return REGION_NOT_USABLE;
    unsigned place = 0;
    while (place < REGIONS_MAX && atomic_get(&regions[place].start) != 0) place++;
    if (place == REGIONS_MAX) return REGION_NO_PLACE;
    region_begin(&regions[place], memory, start, slices, bits);
    if (place >= atomic_get(&regions_in_use)) atomic_set_release(&regions_in_use, place + 1);
    *region = &regions[place];
    return REGION_OK;
}

enum region_verdict region_add(const struct region_memory* memory, struct region** region) {
    uintptr_t begin = (uintptr_t)memory->start;
    if (memory->bytes < SLICE_BYTES || begin == 0 || begin >= ADDRESSES_END ||
        memory->bytes > ADDRESSES_END - begin)
        return REGION_NOT_USABLE;
    uintptr_t start = round_up(begin, SLICE_BYTES);
    uintptr_t end = round_down(begin + memory->bytes, SLICE_BYTES);
    if (end <= start) return REGION_NOT_USABLE;
    size_t slices = (end - start) / SLICE_BYTES;
    if (!windows_make(start, slices)) return REGION_NO_MEMORY;
    uint64_t* bits = os_map(bits_bytes(slices), os_page_bytes());
    if (bits == NULL) return REGION_NO_MEMORY;
    os_lock_acquire(&table_lock);
    enum region_verdict verdict = place_take(memory, start, slices, bits, region);
    os_lock_release(&table_lock);
    if (verdict != REGION_OK) os_unmap(bits, bits_bytes(slices));
    return verdict;
}

bool region_remove(struct region* region) {
    os_lock_acquire(&table_lock);
    os_lock_acquire(&region->lock);
    uint64_t* bits = region->free;
    size_t slices = atomic_get(&region->slices);
    void* mapping = region->mapping;
    bool idle = atomic_get(&region->start) != 0 && atomic_get(&region->live) == 0 &&
                atomic_get(&region->heaps) == 0;
    if (idle) atomic_set_release(&region->start, 0);
    os_lock_release(&region->lock);
    os_lock_release(&table_lock);
    if (!idle) return false;
    os_unmap(bits, bits_bytes(slices));
    if (mapping != NULL) os_unmap(mapping, region->mapping_bytes);
    return true;
}

bool region_bind(struct region* region) {
    os_lock_acquire(&region->lock);
    bool exists = atomic_get(&region->start) != 0;
    if (exists) atomic_set(&region->heaps, atomic_get(&region->heaps) + 1);
    os_lock_release(&region->lock);
    return exists;
}

void region_unbind(struct region* region) {
    os_lock_acquire(&region->lock);
    atomic_set(&region->heaps, atomic_get(&region->heaps) - 1);
    os_lock_release(&region->lock);
}

void region_before_fork(void) {
    os_lock_acquire(&table_lock);
    for (unsigned i = 0; i < REGIONS_MAX; i++) os_lock_acquire(&regions[i].lock);
}

void region_after_fork(void) {
    for (unsigned i = 0; i < REGIONS_MAX; i++) os_lock_release(&regions[i].lock);
    os_lock_release(&table_lock);
}

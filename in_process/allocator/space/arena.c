#include "allocator/space/arena.h"
#include "base/bits.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/huge.h"
#include "os/memory.h"

#define NOWHERE SIZE_MAX
#define ADDRESSES_END ((uintptr_t)WINDOW_COUNT * WINDOW_BYTES)

static KEEL_LARGER struct arena arenas[ARENAS_MAX];
static struct os_lock table_lock; // which entries hold an arena; before an arena's lock
atomic_state arenas_in_use;

static const struct run run_none = {NULL, false, false, 0};

static size_t words_of(size_t slices) {
    return (slices + 63) / 64;
}

// --- Bits ----------------------------------------------------------------------------------------

static void bits_set(uint64_t* bits, size_t from, size_t count, bool value) {
    KEEL_ASSERT(from + count >= from);
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
    KEEL_ASSERT(bits != NULL);
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

// The metadata of the slices of a page is one array, and each window has its own. So a run that may
// become a page does not cross the end of a window: then the next one is the first place. `at`
// counts from address 0.
static size_t within_window(size_t at, size_t slices) {
    bool crosses = at / WINDOW_SLICES != (at + slices - 1) / WINDOW_SLICES;
    return crosses && slices <= SUPERBLOCK_SLICES ? round_up(at, WINDOW_SLICES) : at;
}

// The first slice of a free run of that length, whose address is aligned; NOWHERE if there is none.
static size_t search(struct arena* arena, size_t slices, size_t alignment, size_t budget) {
    KEEL_ASSERT(slices > 0 && is_power_of_two(alignment));
    KEEL_ASSERT(arena->first_free <= arena_range(arena).slices);
    size_t end = arena_range(arena).slices;
    size_t origin = arena_range(arena).start / SLICE_BYTES;
    size_t at = bit_next(arena->free, arena->first_free, end, true, &budget);
    if (at == NOWHERE) return NOWHERE;
    arena->first_free = at;
    while (at < end) {
        size_t first = within_window(round_up(origin + at, alignment), slices) - origin;
        if (first >= end || slices > end - first) return NOWHERE;
        size_t stop = bit_next(arena->free, at, first + slices, false, &budget);
        if (stop == NOWHERE) return NOWHERE;
        if (stop == first + slices) return first;
        at = bit_next(arena->free, stop, end, true, &budget);
        if (at == NOWHERE) return NOWHERE;
    }
    return NOWHERE;
}

static struct run take(struct arena* arena, size_t slices, size_t alignment, size_t budget) {
    KEEL_ASSERT(atomic_get(&arena->lock.state) != 0);
    if (!arena_exists(arena)) return run_none;
    size_t first = search(arena, slices, alignment, budget);
    if (first == NOWHERE) return run_none;
    KEEL_ASSERT(bits_are_all(arena->free, first, slices));
    bool zero = bits_are_all(arena->zero, first, slices);
    bits_set(arena->free, first, slices, false);
    bits_set(arena->zero, first, slices, false);
    atomic_bump(&arena->live, slices);
    char* start = (char*)arena_range(arena).start + first * SLICE_BYTES;
    return (struct run){start, zero, arena->populated, 0};
}

struct run arena_take(struct arena* arena, size_t slices, size_t alignment_slices) {
    KEEL_ASSERT(arena_exists(arena));
    os_lock_acquire(&arena->lock);
    struct run run = take(arena, slices, alignment_slices, SIZE_MAX);
    os_lock_release(&arena->lock);
    return run;
}

static struct run take_if_idle(struct arena* arena, size_t slices, size_t alignment) {
    struct run run = run_none;
    if (!os_lock_try(&arena->lock)) return run;
    if (!arena->exclusive)
        run = take(arena, slices, alignment, ARENA_SHARED_WORDS_MAX + slices / 64);
    os_lock_release(&arena->lock);
    return run;
}

unsigned arena_numa_nodes(void) {
    static atomic_state found; // every thread writes the same value
    int64_t wanted = option_get(OPTION_USE_NUMA_NODES);
    if (wanted > 0) return wanted < 1024 ? (unsigned)wanted : 1024;
    if (atomic_get(&found) == 0) atomic_set(&found, os_numa_nodes());
    return atomic_get(&found);
}

static bool is_near(const struct arena* arena, int node) {
    return arena->node == ARENA_ANY_NODE || node == ARENA_ANY_NODE || arena->node == node;
}

struct run arena_take_any(size_t slices, size_t alignment_slices) {
    KEEL_ASSERT(partition_now() == 0);
    int node = arena_numa_nodes() > 1 ? (int)(os_numa_node() % arena_numa_nodes()) : ARENA_ANY_NODE;
    unsigned count = atomic_get(&arenas_in_use);
    for (unsigned pass = 0; pass < (node == ARENA_ANY_NODE ? 1u : 2u); pass++) {
        for (unsigned i = 0; i < count; i++) {
            if (!arena_exists(&arenas[i])) continue;
            if (is_near(&arenas[i], node) != (pass == 0)) continue;
            struct run run = take_if_idle(&arenas[i], slices, alignment_slices);
            if (run.start != NULL) return run;
        }
    }
    return run_none;
}

void arena_release(struct arena* arena, char* start, size_t slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0);
    KEEL_ASSERT(arena_find(start) == arena);
    os_lock_acquire(&arena->lock);
    size_t first = (size_t)(start - (char*)arena_range(arena).start) / SLICE_BYTES;
    size_t budget = SIZE_MAX;
    KEEL_REQUIRE(bit_next(arena->free, first, first + slices, true, &budget) == first + slices,
                 start);
    KEEL_ASSERT(atomic_get(&arena->live) >= slices);
    bits_set(arena->free, first, slices, true);
    if (first < arena->first_free) arena->first_free = first;
    atomic_set(&arena->live, atomic_get(&arena->live) - slices);
    os_lock_release(&arena->lock);
}

// --- Which arenas there are ---------------------------------------------------------------------

struct arena* arena_find(const void* address) {
    unsigned count = atomic_get(&arenas_in_use);
    for (unsigned i = 0; i < count; i++) {
        struct arena_range range = arena_range(&arenas[i]);
        if ((uintptr_t)address - range.start < range.slices * SLICE_BYTES) return &arenas[i];
    }
    return NULL;
}

size_t arena_live_slices(void) {
    size_t slices = 0;
    unsigned count = atomic_get(&arenas_in_use);
    for (unsigned i = 0; i < count; i++) slices += atomic_get(&arenas[i].live);
    return slices;
}

// True if a part of the range is known to be Keel's. Inside a jumbo mapping (large/jumbo.h) only
// the start of the block is.
static bool is_ours(uintptr_t start, size_t slices) {
    KEEL_ASSERT(start % SLICE_BYTES == 0);
    for (size_t i = 0; i < slices; i++) {
        const void* slice = (const void*)(start + i * SLICE_BYTES);
        if (arena_find(slice) != NULL || window_owns(slice)) return true;
        if (atomic_get(&page_of(slice)->owner) != 0) return true;
    }
    return false;
}

static bool windows_make(uintptr_t start, size_t slices) {
    KEEL_ASSERT(start % SLICE_BYTES == 0 && slices > 0);
    uintptr_t last = start + (slices - 1) * SLICE_BYTES;
    for (uintptr_t at = start / WINDOW_PART_BYTES; at <= last / WINDOW_PART_BYTES; at++) {
        if (window_for((const void*)(at * WINDOW_PART_BYTES)) == NULL) return false;
    }
    return true;
}

static size_t bits_bytes(size_t slices) {
    return round_up(2 * words_of(slices) * sizeof(uint64_t), os_page_bytes());
}

static void arena_begin(struct arena* arena, const struct arena_memory* memory, uintptr_t start,
                        size_t slices, uint64_t* bits) {
    KEEL_ASSERT(!arena_exists(arena) && bits != NULL);
    KEEL_ASSERT(start % SLICE_BYTES == 0 && slices > 0 && slices <= UINT32_MAX);
    os_lock_acquire(&arena->lock);
    arena->free = bits;
    arena->zero = bits + words_of(slices);
    bits_set(arena->free, 0, slices, true);
    if (memory->zero) bits_set(arena->zero, 0, slices, true);
    arena->first_free = 0;
    atomic_set(&arena->heaps, 0);
    arena->mapping = memory->mapped ? memory->start : NULL;
    arena->mapping_bytes = memory->bytes;
    arena->node = memory->node;
    arena->exclusive = memory->exclusive;
    arena->populated = memory->populated;
    atomic_set(&arena->live, 0);
    atomic_set_release(&arena->range, (uint64_t)(start / SLICE_BYTES) << 32 | slices);
    os_lock_release(&arena->lock);
}

// With the table's lock held.
static enum arena_result place_take(const struct arena_memory* memory, uintptr_t start,
                                    size_t slices, uint64_t* bits, struct arena** arena) {
    KEEL_ASSERT(atomic_get(&table_lock.state) != 0);
    if (is_ours(start, slices)) return ARENA_NOT_USABLE;
    unsigned place = 0;
    while (place < ARENAS_MAX && arena_exists(&arenas[place])) place++;
    if (place == ARENAS_MAX) return ARENA_NO_ENTRY;
    if (memory->closed && !os_allow_writing((void*)start, slices * SLICE_BYTES))
        return ARENA_NO_MEMORY;
    arena_begin(&arenas[place], memory, start, slices, bits);
    if (place >= atomic_get(&arenas_in_use)) atomic_set_release(&arenas_in_use, place + 1);
    *arena = &arenas[place];
    return ARENA_OK;
}

enum arena_result arena_add(const struct arena_memory* memory, struct arena** arena) {
    uintptr_t begin = (uintptr_t)memory->start;
    if (memory->bytes < SLICE_BYTES || begin == 0 || begin >= ADDRESSES_END ||
        memory->bytes > ADDRESSES_END - begin)
        return ARENA_NOT_USABLE;
    uintptr_t start = round_up(begin, SLICE_BYTES);
    uintptr_t end = round_down(begin + memory->bytes, SLICE_BYTES);
    if (end <= start) return ARENA_NOT_USABLE;
    size_t slices = (end - start) / SLICE_BYTES;
    if (!windows_make(start, slices)) return ARENA_NO_MEMORY;
    uint64_t* bits = os_map(bits_bytes(slices), os_page_bytes());
    if (bits == NULL) return ARENA_NO_MEMORY;
    os_lock_acquire(&table_lock);
    enum arena_result verdict = place_take(memory, start, slices, bits, arena);
    os_lock_release(&table_lock);
    if (verdict != ARENA_OK) os_unmap(bits, bits_bytes(slices));
    return verdict;
}

bool arena_remove(struct arena* arena) {
    os_lock_acquire(&table_lock);
    os_lock_acquire(&arena->lock);
    uint64_t* bits = arena->free;
    size_t slices = arena_range(arena).slices;
    void* mapping = arena->mapping;
    size_t mapping_bytes = arena->mapping_bytes;
    bool idle = slices != 0 && atomic_get(&arena->live) == 0 && atomic_get(&arena->heaps) == 0;
    if (idle) atomic_set_release(&arena->range, 0); // from here on others may use the entry
    os_lock_release(&arena->lock);
    os_lock_release(&table_lock);
    if (!idle) return false;
    os_unmap(bits, bits_bytes(slices));
    if (mapping != NULL) os_unmap(mapping, mapping_bytes);
    return true;
}

bool arena_bind(struct arena* arena) {
    os_lock_acquire(&arena->lock);
    bool exists = arena_exists(arena);
    if (exists) atomic_set(&arena->heaps, atomic_get(&arena->heaps) + 1);
    os_lock_release(&arena->lock);
    return exists;
}

void arena_unbind(struct arena* arena) {
    KEEL_ASSERT(atomic_get(&arena->heaps) > 0);
    os_lock_acquire(&arena->lock);
    atomic_set(&arena->heaps, atomic_get(&arena->heaps) - 1);
    os_lock_release(&arena->lock);
}

void arena_before_fork(void) {
    os_lock_acquire(&table_lock);
    for (unsigned i = 0; i < ARENAS_MAX; i++) os_lock_acquire(&arenas[i].lock);
}

void arena_after_fork(void) {
    for (unsigned i = 0; i < ARENAS_MAX; i++) os_lock_release(&arenas[i].lock);
    os_lock_release(&table_lock);
}

static bool one_check(const struct arena* arena) {
    size_t free = 0;
    struct arena_range range = arena_range(arena);
    size_t slices = range.slices;
    if (slices == 0) return !arena_exists(arena);
    for (size_t i = 0; i < words_of(slices); i++) {
        if ((arena->zero[i] & ~arena->free[i]) != 0) return false;
        if (i < arena->first_free / 64 && arena->free[i] != 0) return false;
        free += bit_count(arena->free[i]);
    }
    return atomic_get(&arena->live) == slices - free &&
           arena_find((const char*)range.start) == arena;
}

bool arena_check(void) {
    if (!KEEL_CHECKS) return true;
    for (unsigned i = 0; i < ARENAS_MAX; i++) {
        if (!one_check(&arenas[i])) return false;
        if (i >= atomic_get(&arenas_in_use) && arena_exists(&arenas[i])) return false;
    }
    return true;
}

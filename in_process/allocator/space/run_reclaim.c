// Free slices that the reserve takes for the time in which it discards or populates their memory.
#include "allocator/space/huge_unit.h"
#include "allocator/space/superblock.h"
#include "base/bits.h"
#include "base/panic.h"

// Takes the highest free and touched, or the lowest free and untouched, run of at most slices_max
// slices of this superblock. 0: none, or contended.
static uint64_t superblock_take_free(struct superblock* superblock, unsigned slices_max,
                                     bool dirty) {
    KEEL_ASSERT(slices_max > 0);
    uint64_t free = atomic_get_ordered(&superblock->free);
    for (unsigned tries = 0; tries < RUN_TRIES; tries++) {
        uint64_t touched = atomic_get_ordered(&superblock->touched);
        uint64_t eligible = dirty ? free & touched : free & ~touched;
        if (eligible == 0) return 0;
        unsigned first = bit_lowest(eligible);
        unsigned end;
        if (dirty) {
            end = bit_highest(eligible) + 1;
            uint64_t gaps = ~eligible & bit_range(0, end);
            first = gaps == 0 ? 0 : bit_highest(gaps) + 1;
            if (end - first > slices_max) first = end - slices_max;
        } else {
            uint64_t gaps = ~eligible & (~UINT64_C(0) << first);
            end = gaps == 0 ? 64 : bit_lowest(gaps);
            if (end - first > slices_max) end = first + slices_max;
        }
        uint64_t mask = bit_range(first, end - first);
        KEEL_ASSERT(end > first && end - first <= slices_max);
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) return mask;
    }
    return 0;
}

static struct free_run free_run_of(struct window* window, unsigned index, uint64_t mask) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && mask != 0);
    KEEL_ASSERT(bit_count(mask) == bit_highest(mask) - bit_lowest(mask) + 1);
    return (struct free_run){slice_address(window, index, bit_lowest(mask)), bit_count(mask)};
}

// From the highest superblocks below `end` on, at most RUN_PROBES of them. With `whole`, only whole
// units of the huge zone.
static struct free_run dirty_take_below(struct window* window, unsigned end, unsigned slices_max,
                                        bool whole) {
    KEEL_ASSERT(end <= WINDOW_SUPERBLOCKS && slices_max > 0);
    for (unsigned probe = 0; probe < RUN_PROBES && end > 0; probe++) {
        unsigned index = index_set_last(window_set(window, SET_DIRTY), end);
        if (index >= WINDOW_SUPERBLOCKS) break;
        struct superblock* superblock = &window->superblocks[index];
        uint64_t mask = whole && superblock_in_huge_zone(window, index)
                            ? huge_unit_take_dirty(superblock)
                            : superblock_take_free(superblock, slices_max, true);
        if (mask != 0) return free_run_of(window, index, mask);
        end = index;
        superblock_correct_dirty(window, index);
    }
    return (struct free_run){NULL, 0};
}

static struct free_run dirty_take_of(unsigned partition, unsigned slices_max, bool whole) {
    KEEL_ASSERT(partition < PARTITION_COUNT);
    unsigned number = 0;
    struct window* window;
    for (; (window = window_next(partition, SET_DIRTY, &number)) != NULL; number++) {
        struct free_run run = dirty_take_below(window, WINDOW_SUPERBLOCKS, slices_max, whole);
        if (run.slices == 0) run = dirty_take_below(window, HUGE_ZONE_FIRST, slices_max, whole);
        if (run.slices != 0) return run;
    }
    return (struct free_run){NULL, 0};
}

struct free_run run_take_dirty(unsigned slices_max) {
    KEEL_ASSERT(slices_max > 0);
    // A part of a unit is the last resort: its huge page is split.
    bool whole = slices_max >= HUGE_SLICES / 2;
    for (unsigned passes = whole ? 2 : 1; passes > 0; passes--, whole = false) {
        for (unsigned partition = PARTITION_COUNT; partition-- > 0;) {
            struct free_run run = dirty_take_of(partition, slices_max, whole);
            if (run.slices != 0) return run;
        }
    }
    return (struct free_run){NULL, 0};
}

struct place {
    struct window* window;
    unsigned index; // of the superblock
    uint64_t mask;
};
static struct place place_of(struct free_run run) {
    KEEL_ASSERT((uintptr_t)run.start % SLICE_BYTES == 0 && run.slices > 0);
    KEEL_ASSERT(window_find(run.start) != NULL);
    struct window* window = window_find(run.start);
    size_t slice = (size_t)(run.start - window->base) / SLICE_BYTES;
    unsigned first = (unsigned)(slice % SUPERBLOCK_SLICES);
    KEEL_ASSERT(first + run.slices <= SUPERBLOCK_SLICES);
    return (struct place){window, (unsigned)(slice / SUPERBLOCK_SLICES),
                          bit_range(first, run.slices)};
}

// False: a part of a unit is among them, also if there are as many slices as in one.
static bool is_whole_units(uint64_t mask) {
    return huge_units_in(mask) == mask;
}

bool run_splits_unit(struct free_run run) {
    struct place place = place_of(run);
    return superblock_in_huge_zone(place.window, place.index) && !is_whole_units(place.mask);
}

struct free_run run_take_cold(unsigned slices_max) {
    KEEL_ASSERT(slices_max > 0);
    unsigned number = 0;
    for (struct window* window; (window = window_next(0, SET_RUNS, &number)) != NULL; number++) {
        for (unsigned index = 0;; index++) {
            index = index_set_next(window_set(window, SET_RUNS), index);
            if (index >= WINDOW_SUPERBLOCKS) break;
            uint64_t mask = superblock_take_free(&window->superblocks[index], slices_max, false);
            if (mask != 0) return free_run_of(window, index, mask);
        }
    }
    return (struct free_run){NULL, 0};
}

unsigned run_return(struct free_run run, enum run_state state) {
    struct place place = place_of(run);
    uint64_t mask = place.mask;
    struct superblock* superblock = &place.window->superblocks[place.index];
    KEEL_ASSERT((atomic_get(&superblock->open) & mask) == mask);
    KEEL_ASSERT((atomic_get(&superblock->free) & mask) == 0);
    unsigned touched = bit_count(atomic_get(&superblock->touched) & mask);
    if (state == RUN_DISCARDED) {
        (void)atomic_and_ordered(&superblock->touched, ~mask);
        (void)atomic_and_ordered(&superblock->zero, ~mask);
        slices_count(0, -(int64_t)touched);
        if (superblock_in_huge_zone(place.window, place.index) && is_whole_units(mask)) {
            huge_units_close(place.window, place.index, mask);
            return touched;
        }
    } else if (state == RUN_POPULATED) {
        (void)atomic_or_ordered(&superblock->touched, mask);
        (void)atomic_or_ordered(&superblock->zero, mask);
        slices_count(0, (int64_t)run.slices - touched);
    }
    uint64_t before = atomic_or_ordered(&superblock->free, mask);
    superblock_file(place.window, place.index, before, before | mask);
    if (superblock_is_dirty(superblock)) window_set_add(place.window, SET_DIRTY, place.index);
    return touched;
}

bool run_open_closed(void) {
    if (partition_now() != 0) return false;
    struct free_run run = run_take_closed();
    if (run.slices != 0) (void)run_return(run, RUN_AS_BEFORE);
    return run.slices != 0;
}

#include "allocator/space/huge_unit.h"
#include "allocator/space/superblock.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/memory.h"

#define AHEAD_UNIT 2u // of a group: a process with fewer units needs no other group soon
#define HUGE_MASK bit_range(0, HUGE_SLICES)
#define UNIT_BYTES (HUGE_SLICES * SLICE_BYTES)

bool superblock_in_huge_zone(struct window* window, unsigned index) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS);
    return index >= HUGE_ZONE_FIRST && atomic_get(&window->chosen) != 0;
}

uint64_t huge_units_in(uint64_t mask) {
    uint64_t units = 0;
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        if ((mask & HUGE_MASK << first) == HUGE_MASK << first) units |= HUGE_MASK << first;
    }
    return units;
}

void huge_units_close(struct window* window, unsigned index, uint64_t units) {
    KEEL_ASSERT(index >= HUGE_ZONE_FIRST && index < WINDOW_SUPERBLOCKS);
    KEEL_ASSERT(units != 0 && huge_units_in(units) == units);
    KEEL_ASSERT((atomic_get(&window->superblocks[index].free) & units) == 0);
    (void)atomic_and_ordered(&window->superblocks[index].open, ~units);
    window_set_add(window, SET_CLOSED, index);
}

uint64_t huge_unit_take_dirty(struct superblock* superblock) {
    uint64_t free = atomic_get_ordered(&superblock->free);
    uint64_t touched = atomic_get_ordered(&superblock->touched);
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        uint64_t mask = HUGE_MASK << first;
        if ((free & mask) != mask || (touched & mask) == 0) continue;
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) return mask;
    }
    return 0;
}

// --- Closed units --------------------------------------------------------------------------------

// Its place in the bits of units.
static unsigned unit_of(unsigned index, unsigned first) {
    KEEL_ASSERT(index >= HUGE_ZONE_FIRST && index < WINDOW_SUPERBLOCKS);
    KEEL_ASSERT(first % HUGE_SLICES == 0 && first < SUPERBLOCK_SLICES);
    return (index - HUGE_ZONE_FIRST) * (SUPERBLOCK_SLICES / HUGE_SLICES) + first / HUGE_SLICES;
}

static bool unit_has(atomic_bits* units, unsigned unit) {
    KEEL_ASSERT(unit < HUGE_UNITS);
    return (atomic_get_ordered(&units[unit / 64]) >> (unit % 64) & 1) != 0;
}

// True: it was set already.
static bool unit_set(atomic_bits* units, unsigned unit) {
    KEEL_ASSERT(unit < HUGE_UNITS);
    uint64_t bit = UINT64_C(1) << (unit % 64);
    return (atomic_or_ordered(&units[unit / 64], bit) & bit) != 0;
}

// The slices of closed units that can be opened.
static uint64_t closed_slices(struct window* window, unsigned index) {
    KEEL_ASSERT(index >= HUGE_ZONE_FIRST);
    uint64_t closed = ~atomic_get_ordered(&window->superblocks[index].open);
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        if (unit_has(window->units_taken, unit_of(index, first))) closed &= ~(HUGE_MASK << first);
    }
    return closed;
}

static char* unit_start(struct window* window, unsigned unit) {
    KEEL_ASSERT(unit <= HUGE_UNITS);
    return slice_address(window, HUGE_ZONE_FIRST, 0) + unit * UNIT_BYTES;
}

static unsigned unit_at(struct window* window, const char* start) {
    KEEL_ASSERT(start >= unit_start(window, 0));
    return (unsigned)((size_t)(start - unit_start(window, 0)) / UNIT_BYTES);
}

// False: the system would give the memory at once, because the program has locked all of its future
// memory, or it does not map so much.
static bool map_without_memory(char* start, size_t bytes) {
    KEEL_ASSERT((uintptr_t)start % UNIT_BYTES == 0 && bytes % UNIT_BYTES == 0);
    if (os_map_at(start, bytes) != OS_PLACED) return false;
    if (!os_page_is_resident(start + bytes - 1)) return true;
    os_unmap(start, bytes);
    return false;
}

// Maps the units of a group, and asks for huge pages there: one mapping for all of them. To change
// a mapping, the system waits for the page faults in it, and a fault that zeroes 2 MiB is long.
static bool group_map(struct window* window, unsigned group) {
    KEEL_ASSERT(group < HUGE_GROUPS);
    unsigned first = group * GROUP_UNITS;
    uint64_t units = bit_range(first % 64, GROUP_UNITS);
    char* start = unit_start(window, first);
    if (space_is_scarce() || !map_without_memory(start, GROUP_UNITS * UNIT_BYTES)) return false;
    os_prefer_huge_pages(start, GROUP_UNITS * UNIT_BYTES);
    (void)atomic_or_ordered(&window->units_preferred[first / 64], units);
    (void)atomic_or_ordered(&window->units_mapped[first / 64], units);
    return true;
}

// What became of the search for a unit.
enum take {
    TAKE_DONE,
    TAKE_NONE,
    TAKE_BUSY,   // another thread is mapping the group
    TAKE_REFUSED // the system does not map it
};

// Maps a group if no thread has begun to. TAKE_NONE: the system does not map it, so its units are
// mapped one by one.
static enum take group_take(struct window* window, unsigned group) {
    KEEL_ASSERT(group < HUGE_GROUPS);
    if (unit_set(window->groups_begun, group)) return TAKE_BUSY;
    if (group_map(window, group)) return TAKE_DONE;
    (void)unit_set(window->groups_divided, group);
    return TAKE_NONE;
}

static enum take take_of(enum os_placing placing) {
    return placing == OS_PLACED ? TAKE_DONE : placing == OS_TAKEN ? TAKE_NONE : TAKE_REFUSED;
}

// Maps a unit of the caller. The metadata that describes it can be written then. TAKE_NONE: other
// code has mapped it.
static enum take unit_map(struct window* window, unsigned unit) {
    KEEL_ASSERT(unit < HUGE_UNITS);
    unsigned group = unit / GROUP_UNITS;
    if (unit_has(window->units_mapped, unit)) return TAKE_DONE;
    if (window_for(unit_start(window, unit)) == NULL) return TAKE_REFUSED;
    if (!unit_has(window->groups_divided, group)) {
        enum take begun = group_take(window, group);
        if (begun == TAKE_DONE) return TAKE_DONE;
        if (begun == TAKE_BUSY) return unit_has(window->units_mapped, unit) ? TAKE_DONE : TAKE_BUSY;
    }
    enum take result = take_of(os_map_at(unit_start(window, unit), UNIT_BYTES));
    if (result == TAKE_DONE) (void)unit_set(window->units_mapped, unit);
    if (result == TAKE_NONE) (void)unit_set(window->units_taken, unit);
    return result;
}

// Takes a unit that is not open, and maps it. It is then open but not free, so only the caller can
// use it.
static enum take superblock_take_closed(struct window* window, unsigned index, uint64_t* taken) {
    KEEL_ASSERT(index >= HUGE_ZONE_FIRST);
    struct superblock* superblock = &window->superblocks[index];
    uint64_t closed = closed_slices(window, index);
    enum take result = TAKE_NONE;
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        uint64_t mask = HUGE_MASK << first;
        if ((closed & mask) != mask) continue;
        if ((atomic_or_ordered(&superblock->open, mask) & mask) != 0) continue;
        *taken = mask;
        result = unit_map(window, unit_of(index, first));
        if (result == TAKE_DONE) return TAKE_DONE;
        huge_units_close(window, index, mask);
        if (result != TAKE_NONE) return result;
    }
    return result;
}

// The system may have preempted the thread that maps a group, for milliseconds; so a group that is
// busy is left out.
#define GROUP_SUPERBLOCKS (GROUP_UNITS * HUGE_SLICES / SUPERBLOCK_SLICES)
static struct free_run window_take_closed(struct window* window, enum take* result) {
    KEEL_ASSERT(atomic_get(&window->chosen) != 0);
    unsigned index = HUGE_ZONE_FIRST;
    for (unsigned probe = 0; probe < RUN_PROBES && *result != TAKE_REFUSED; probe++, index++) {
        index = index_set_next(window_set(window, SET_CLOSED), index);
        if (index >= WINDOW_SUPERBLOCKS) break;
        uint64_t mask = 0;
        *result = superblock_take_closed(window, index, &mask);
        if (*result == TAKE_DONE)
            return (struct free_run){slice_address(window, index, bit_lowest(mask)), HUGE_SLICES};
        window_set_remove(window, SET_CLOSED, index);
        if (closed_slices(window, index) != 0) window_set_add(window, SET_CLOSED, index);
        if (*result == TAKE_BUSY) index |= GROUP_SUPERBLOCKS - 1;
    }
    return (struct free_run){NULL, 0};
}

struct free_run run_take_closed(void) {
    enum take result = TAKE_NONE;
    unsigned number = 0;
    for (struct window* window; (window = window_next(0, SET_CLOSED, &number)) != NULL; number++) {
        struct free_run run = window_take_closed(window, &result);
        if (run.slices != 0 || result == TAKE_REFUSED) return run;
    }
    return (struct free_run){NULL, 0};
}

void huge_units_map_ahead(struct free_run run) {
    KEEL_ASSERT(run.slices > 0 && window_find(run.start) != NULL);
    struct window* window = window_find(run.start);
    unsigned unit = unit_at(window, run.start);
    unsigned group = unit / GROUP_UNITS + 1;
    if (unit % GROUP_UNITS != AHEAD_UNIT || group >= HUGE_GROUPS) return;
    if (unit_has(window->groups_begun, group)) return;
    if (window_for(unit_start(window, group * GROUP_UNITS)) == NULL) return;
    (void)group_take(window, group);
}

// --- Huge pages ----------------------------------------------------------------------------------

void huge_unit_prefer(struct free_run run) {
    KEEL_ASSERT(run.slices == HUGE_SLICES && window_find(run.start) != NULL);
    struct window* window = window_find(run.start);
    unsigned unit = unit_at(window, run.start);
    if (unit_has(window->units_preferred, unit)) return;
    os_prefer_huge_pages(run.start, UNIT_BYTES);
    (void)unit_set(window->units_preferred, unit);
}

void huge_units_forbid(struct free_run run) {
    KEEL_ASSERT(run.slices > 0 && window_find(run.start) != NULL);
    struct window* window = window_find(run.start);
    char* zone = unit_start(window, 0);
    size_t end = (size_t)(run.start - zone) + run.slices * SLICE_BYTES;
    unsigned first = unit_at(window, run.start);
    unsigned last = (unsigned)((end - 1) / UNIT_BYTES);
    KEEL_ASSERT(first <= last && last < HUGE_UNITS);
    for (unsigned unit = first; unit <= last; unit++) {
        uint64_t bit = UINT64_C(1) << (unit % 64);
        (void)atomic_and_ordered(&window->units_preferred[unit / 64], ~bit);
    }
    os_forbid_huge_pages(zone + first * UNIT_BYTES, (last + 1 - first) * UNIT_BYTES);
}

static bool group_check(struct window* window, unsigned group) {
    uint64_t bit = UINT64_C(1) << (group % 64);
    bool begun = (atomic_get(&window->groups_begun[group / 64]) & bit) != 0;
    bool divided = (atomic_get(&window->groups_divided[group / 64]) & bit) != 0;
    uint64_t units = bit_range(group * GROUP_UNITS % 64, GROUP_UNITS);
    uint64_t mapped = atomic_get(&window->units_mapped[group * GROUP_UNITS / 64]) & units;
    return begun ? divided || mapped == units : !divided && mapped == 0;
}

// Units that can be opened are found.
static bool closed_check(struct window* window, unsigned index) {
    uint64_t bit = UINT64_C(1) << (index % 64);
    bool listed = (atomic_get(&window_set(window, SET_CLOSED)->words[index / 64]) & bit) != 0;
    return listed || closed_slices(window, index) == 0;
}

bool huge_units_check(struct window* window) {
    if (!KEEL_CHECKS) return true;
    bool chosen = atomic_get(&window->chosen) != 0;
    for (unsigned i = 0; i < HUGE_UNITS / 64; i++) {
        uint64_t mapped = atomic_get(&window->units_mapped[i]);
        uint64_t taken = atomic_get(&window->units_taken[i]);
        uint64_t preferred = atomic_get(&window->units_preferred[i]);
        if ((mapped & taken) != 0 || (!chosen && (mapped | taken | preferred) != 0)) return false;
    }
    for (unsigned group = 0; group < HUGE_GROUPS; group++)
        if (!group_check(window, group)) return false;
    for (unsigned index = HUGE_ZONE_FIRST; chosen && index < WINDOW_SUPERBLOCKS; index++)
        if (!closed_check(window, index)) return false;
    return true;
}

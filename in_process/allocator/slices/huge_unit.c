#include "allocator/slices/huge_unit.h"
#include "allocator/slices/superblock.h"
#include "base/bits.h"
#include "os/memory.h"

#define HUGE_MASK bit_range(0, HUGE_SLICES)

bool superblock_in_huge_zone(struct window* window, unsigned index) {
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
    return (index - HUGE_ZONE_FIRST) * (SUPERBLOCK_SLICES / HUGE_SLICES) + first / HUGE_SLICES;
}

static bool unit_has(atomic_bits* units, unsigned unit) {
    return (atomic_get_ordered(&units[unit / 64]) >> (unit % 64) & 1) != 0;
}

static void unit_set(atomic_bits* units, unsigned unit) {
    (void)atomic_or_ordered(&units[unit / 64], UINT64_C(1) << (unit % 64));
}

// The slices of closed units that can be opened.
static uint64_t closed_slices(struct window* window, unsigned index) {
    uint64_t closed = ~atomic_get_ordered(&window->superblocks[index].open);
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        if (unit_has(window->units_taken, unit_of(index, first))) closed &= ~(HUGE_MASK << first);
    }
    return closed;
}

// Maps a unit of the caller. The metadata that describes it can be written then.
static enum os_placing unit_map(struct window* window, unsigned unit) {
    if (unit_has(window->units_mapped, unit)) return OS_PLACED;
    char* start = slice_address(window, HUGE_ZONE_FIRST, 0) + unit * HUGE_SLICES * SLICE_BYTES;
    if (window_for(start) == NULL) return OS_REFUSED;
    enum os_placing placing = os_map_at(start, HUGE_SLICES * SLICE_BYTES);
    if (placing == OS_PLACED) unit_set(window->units_mapped, unit);
    return placing;
}

// Takes a unit that is not open, and maps it. It is then open but not free, so only the caller can
// use it. 0: none; *refused: the system refuses to map it.
static uint64_t superblock_take_closed(struct window* window, unsigned index, bool* refused) {
    struct superblock* superblock = &window->superblocks[index];
    uint64_t closed = closed_slices(window, index);
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        uint64_t mask = HUGE_MASK << first;
        if ((closed & mask) != mask) continue;
        if ((atomic_or_ordered(&superblock->open, mask) & mask) != 0) continue;
        enum os_placing placing = unit_map(window, unit_of(index, first));
        if (placing == OS_PLACED) return mask;
        if (placing == OS_TAKEN) unit_set(window->units_taken, unit_of(index, first));
        huge_units_close(window, index, mask);
        *refused |= placing == OS_REFUSED;
    }
    return 0;
}

static struct free_run window_take_closed(struct window* window, bool* refused) {
    unsigned index = HUGE_ZONE_FIRST;
    for (unsigned probe = 0; probe < RUN_PROBES && !*refused; probe++, index++) {
        index = index_set_next(&window->sets[SET_CLOSED], index);
        if (index >= WINDOW_SUPERBLOCKS) break;
        uint64_t mask = superblock_take_closed(window, index, refused);
        if (mask != 0)
            return (struct free_run){slice_address(window, index, bit_lowest(mask)), HUGE_SLICES};
        window_set_remove(window, SET_CLOSED, index);
        if (closed_slices(window, index) != 0) window_set_add(window, SET_CLOSED, index);
    }
    return (struct free_run){NULL, 0};
}

struct free_run run_take_closed(void) {
    bool refused = false;
    unsigned number = 0;
    for (struct window* window; (window = window_next(0, SET_CLOSED, &number)) != NULL; number++) {
        struct free_run run = window_take_closed(window, &refused);
        if (run.slices != 0 || refused) return run;
    }
    return (struct free_run){NULL, 0};
}

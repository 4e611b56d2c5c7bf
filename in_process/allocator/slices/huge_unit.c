#include "allocator/slices/huge_unit.h"
#include "allocator/slices/superblock.h"
#include "base/bits.h"

#define HUGE_MASK bit_range(0, HUGE_SLICES)

bool superblock_in_huge_zone(struct window* window, unsigned index) {
    return index >= HUGE_ZONE_FIRST && atomic_get(&window->whole) != 0;
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
    superblock_set_add(&window->closed, index);
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

// Takes a unit that is not open. It is then open but not free, so only the caller can use it. 0:
// none.
static uint64_t superblock_take_closed(struct superblock* superblock) {
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        uint64_t mask = HUGE_MASK << first;
        if ((atomic_get(&superblock->open) & mask) != 0) continue;
        if ((atomic_or_ordered(&superblock->open, mask) & mask) == 0) return mask;
    }
    return 0;
}

struct free_run run_take_closed(void) {
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        if (window == NULL) continue;
        unsigned index = HUGE_ZONE_FIRST;
        for (unsigned probe = 0; probe < RUN_PROBES; probe++, index++) {
            index = superblock_set_next(&window->closed, index);
            if (index == WINDOW_SUPERBLOCKS) break;
            uint64_t mask = superblock_take_closed(&window->superblocks[index]);
            if (mask != 0)
                return (struct free_run){slice_address(window, index, bit_lowest(mask)),
                                         HUGE_SLICES};
            superblock_set_remove(&window->closed, index);
            if (atomic_get_ordered(&window->superblocks[index].open) != ~UINT64_C(0))
                superblock_set_add(&window->closed, index);
        }
    }
    return (struct free_run){NULL, 0};
}

// Verifies superblocks, their sets and the counts while no other thread is active.
#include "allocator/space/huge_unit.h"
#include "allocator/space/packed.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "base/bits.h"

// True if the window is found through each of its sets that has members.
static bool sets_listed(struct window* window, size_t number) {
    for (unsigned set = 0; set < WINDOW_SETS; set++) {
        if (atomic_get(&window_set(window, set)->summary) == 0) continue;
        struct index_set* with = window_with(window, set);
        if ((atomic_get(&with->words[number / 64]) >> (number % 64) & 1) == 0) return false;
        if ((atomic_get(&with->summary) >> (number / 64) & 1) == 0) return false;
    }
    return true;
}

bool run_check(void) {
    int64_t live = 0;
    int64_t dirty = 0;
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        if (window == NULL || !sets_listed(window, i) || !huge_units_check(window)) return false;
        for (unsigned index = 0; index < WINDOW_SUPERBLOCKS; index++) {
            struct superblock* superblock = &window->superblocks[index];
            uint64_t open = atomic_get(&superblock->open);
            uint64_t free = atomic_get(&superblock->free);
            uint64_t touched = atomic_get(&superblock->touched);
            if ((free & ~open) != 0 || (touched & ~open) != 0) return false;
            if ((open & ~free & ~touched) != 0) return false; // given out but not marked as touched
            if ((atomic_get(&superblock->zero) & ~(free & touched)) != 0) return false;
            live += bit_count(open & ~free);
            dirty += bit_count(free & touched);
            for (unsigned i = 0; open != 0 && i < SUPERBLOCK_SLICES; i++)
                if (!packed_check(window, (size_t)index * SUPERBLOCK_SLICES + i)) return false;
            unsigned word = index / 64;
            uint64_t bit = UINT64_C(1) << (index % 64);
            for (unsigned bucket = 0; free != 0 && bucket <= bit_longest_log2(free); bucket++) {
                if ((atomic_get(&window_set(window, SET_RUNS + bucket)->words[word]) & bit) == 0)
                    return false;
            }
            if ((free & touched) != 0 &&
                (atomic_get(&window_set(window, SET_DIRTY)->words[word]) & bit) == 0)
                return false;
        }
    }
    return live == (int64_t)run_live_slices() && dirty == (int64_t)run_dirty_slices();
}

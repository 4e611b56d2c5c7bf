// Releasing runs, with or without their memory, and extending them.
#include "allocator/space/arena.h"
#include "allocator/space/huge_unit.h"
#include "allocator/space/range.h"
#include "allocator/space/superblock.h"
#include "base/bits.h"
#include "base/panic.h"

void run_release(char* start, unsigned slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0);
    struct arena* arena = arena_of(start);
    if (arena != NULL) {
        arena_release(arena, start, slices);
        return;
    }
    struct window* window = window_find(start);
    KEEL_ASSERT(window != NULL);
    range_give(window, (size_t)(start - window->base) / SLICE_BYTES, slices);
}

// In the huge zone whole units are closed: else the next thread that touches one would take the
// fault that zeroes 2 MiB. The rest of a unit has neighbours that keep its page table, so it still
// counts as touched.
static void part_give_empty(struct window* window, unsigned index, uint64_t mask) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && mask != 0);
    KEEL_ASSERT((atomic_get(&window->superblocks[index].open) & mask) == mask);
    KEEL_ASSERT((atomic_get(&window->superblocks[index].free) & mask) == 0);
    struct superblock* superblock = &window->superblocks[index];
    bool huge = superblock_in_huge_zone(window, index);
    uint64_t closing = huge ? huge_units_in(mask) : 0;
    uint64_t empty = huge ? closing : mask;
    (void)atomic_and_ordered(&superblock->touched, ~empty);
    slices_count(-(int64_t)bit_count(empty), 0);
    if (closing != 0) huge_units_close(window, index, closing);
    if ((mask & ~empty) != 0) slices_give(window, index, mask & ~empty);
    if ((empty & ~closing) == 0) return;
    uint64_t before = atomic_or_ordered(&superblock->free, empty);
    superblock_file(window, index, before, before | empty);
}

void run_release_empty(char* start, unsigned slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0);
    KEEL_ASSERT(arena_of(start) == NULL && window_find(start) != NULL);
    struct window* window = window_find(start);
    size_t slice = (size_t)(start - window->base) / SLICE_BYTES;
    struct part part;
    while (part_next(&slice, &slices, &part)) part_give_empty(window, part.index, part.mask);
}

bool run_extend(char* start, unsigned slices, unsigned new_slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0);
    KEEL_ASSERT(slices > 0 && new_slices > slices);
    if (arena_of(start) != NULL) return false; // the window's own slices may follow its end
    struct window* window = window_find(start);
    size_t slice = (size_t)(start - window->base) / SLICE_BYTES;
    if (slice + new_slices > WINDOW_SLICES) return false;
    struct run run;
    unsigned failed;
    if (range_take(window, slice + slices, new_slices - slices, &run, &failed)) return true;
    // All before it is free. If it is not mapped yet, it can be.
    if (atomic_get(&window->superblocks[failed].open) != 0) return false;
    unsigned last = (unsigned)((slice + new_slices - 1) / SUPERBLOCK_SLICES);
    if (!window_grow_at(slice_address(window, failed, 0), last - failed + 1)) return false;
    return range_take(window, slice + slices, new_slices - slices, &run, &failed);
}

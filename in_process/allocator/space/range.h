// Ranges of slices of one window that may span several superblocks. For the other files of runs.
#ifndef KEEL_ALLOCATOR_SPACE_RANGE_H
#define KEEL_ALLOCATOR_SPACE_RANGE_H

#include "allocator/space/run.h"
#include "allocator/space/window.h"

// The slices of a range that one superblock has.
struct part {
    unsigned index;
    uint64_t mask;
};

// Cuts the first part off [*slice, *slice + *slices). False: nothing is left.
bool part_next(size_t* slice, unsigned* slices, struct part* part);

// Takes all slices from `slice` on, or none. If none, *failed is the superblock that is not as free
// as needed.
bool range_take(struct window* window, size_t slice, unsigned slices, struct run* run,
                unsigned* failed);

// Gives the slices from `slice` on back.
void range_give(struct window* window, size_t slice, unsigned slices);

#endif

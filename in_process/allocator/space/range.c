#include "allocator/space/range.h"
#include "allocator/space/superblock.h"
#include "base/bits.h"
#include "base/panic.h"

bool part_next(size_t* slice, unsigned* slices, struct part* part) {
    if (*slices == 0) return false;
    KEEL_ASSERT(*slice + *slices <= WINDOW_SLICES);
    unsigned first = (unsigned)(*slice % SUPERBLOCK_SLICES);
    unsigned here = SUPERBLOCK_SLICES - first < *slices ? SUPERBLOCK_SLICES - first : *slices;
    *part = (struct part){(unsigned)(*slice / SUPERBLOCK_SLICES), bit_range(first, here)};
    KEEL_ASSERT(part->index < WINDOW_SUPERBLOCKS && part->mask != 0);
    *slice += here;
    *slices -= here;
    return true;
}

// Takes the slices of the mask, if all of them are free.
static bool part_take(struct superblock* superblock, uint64_t mask) {
    KEEL_ASSERT(mask != 0);
    uint64_t free = atomic_get(&superblock->free);
    for (unsigned tries = 0; tries < RUN_TRIES && (free & mask) == mask; tries++) {
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) return true;
    }
    return false;
}

void range_give(struct window* window, size_t slice, unsigned slices) {
    KEEL_ASSERT(slice + slices <= WINDOW_SLICES);
    struct part part;
    while (part_next(&slice, &slices, &part)) slices_give(window, part.index, part.mask);
}

// False: *failed is the first superblock whose part is not wholly free.
static bool range_is_free(struct window* window, size_t slice, unsigned slices, unsigned* failed) {
    struct part part;
    while (part_next(&slice, &slices, &part)) {
        *failed = part.index;
        if ((~atomic_get(&window->superblocks[part.index].free) & part.mask) != 0) return false;
    }
    return true;
}

bool range_take(struct window* window, size_t slice, unsigned slices, struct run* run,
                unsigned* failed) {
    KEEL_ASSERT(slice + slices <= WINDOW_SLICES);
    *run = (struct run){window->base + slice * SLICE_BYTES, true, true, 0};
    // First a look: what is taken and given back counts as touched from then on.
    if (!range_is_free(window, slice, slices, failed)) return false;
    size_t rest = slice;
    unsigned left = slices;
    for (struct part part; part_next(&rest, &left, &part);) {
        struct superblock* superblock = &window->superblocks[part.index];
        if (!part_take(superblock, part.mask)) {
            *failed = part.index;
            range_give(window, slice, slices - left - bit_count(part.mask));
            return false;
        }
        struct run taken = slices_take(superblock, part.mask, run->start);
        run->zero &= taken.zero;
        run->warm &= taken.warm;
        bool none = taken.untouched == bit_count(part.mask);
        run->untouched = taken.untouched + (none ? run->untouched : 0);
    }
    return true;
}

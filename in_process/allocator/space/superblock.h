// The slices of one superblock: taking and giving them, filing the superblock in the sets of its
// window, and the counts of live and dirty slices. For the other files of runs.
#ifndef KEEL_ALLOCATOR_SPACE_SUPERBLOCK_H
#define KEEL_ALLOCATOR_SPACE_SUPERBLOCK_H

#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "base/bits.h"
#include "base/panic.h"

#define RUN_TRIES 8u  // compare-and-swaps on one superblock
#define RUN_PROBES 8u // superblocks of one set that a search looks at

KEEL_INLINE char* slice_address(struct window* window, unsigned superblock, unsigned slice) {
    KEEL_ASSERT(superblock < WINDOW_SUPERBLOCKS && slice < SUPERBLOCK_SLICES);
    return window->base + superblock * SUPERBLOCK_BYTES + slice * SLICE_BYTES;
}

// Files the superblock under the run lengths that its free word has now and did not have before.
// The thread that made the other lengths true has filed those (see index_set.h for the order).
void superblock_file(struct window* window, unsigned index, uint64_t before, uint64_t now);

// Removes a superblock that was found not to belong to the bucket, and files it again as it is now.
void superblock_unfile(struct window* window, unsigned index, unsigned bucket);

// The same for all buckets at once, if a run has taken the last free slices: the bounded searches
// for short runs would find little else.
void superblock_unfile_taken(struct window* window, unsigned index);

// True if it may have slices that are free and touched.
KEEL_INLINE bool superblock_is_dirty(struct superblock* superblock) {
    return (atomic_get_ordered(&superblock->free) & atomic_get_ordered(&superblock->touched)) != 0;
}

// Removes a superblock without such slices from the set of dirty ones.
void superblock_correct_dirty(struct window* window, unsigned index);

// Every run that is taken or released changes `held`, so it shares a cache line with nothing that
// is read more often. The two counts are in one word: one write for each warm run.
struct slice_counts {
    // Slices given out, times 2^32, plus free slices that may occupy memory. Momentarily either may
    // be negative. At most 2^28 each (WINDOWS_MAX).
    KEEL_ALIGNED(KEEL_CACHE_LINE) atomic_signed held;
    atomic_bits cold;          // slices taken so far that had not been touched
    atomic_bits narrow_missed; // slices that were to be warm and were not (run_narrow_missed)
};
_Static_assert(sizeof(struct slice_counts) == KEEL_CACHE_LINE, "a cache line of its own");
extern struct slice_counts slice_counts;

// So many more slices are given out, and so many more are free and may occupy memory.
KEEL_INLINE void slices_count(int64_t live, int64_t dirty) {
    (void)atomic_add(&slice_counts.held, live * (INT64_C(1) << 32) + dirty);
}

// Accounts for slices whose bits the caller has just cleared. The run has the state of their
// memory.
KEEL_INLINE struct run slices_take(struct superblock* superblock, uint64_t mask, char* start) {
    KEEL_ASSERT((atomic_get(&superblock->open) & mask) == mask);
    KEEL_ASSERT(mask != 0 && (atomic_get(&superblock->free) & mask) == 0);
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0);
    uint64_t touched = atomic_or_ordered(&superblock->touched, mask) & mask;
    uint64_t zero = atomic_get(&superblock->zero) & mask;
    if (zero != 0) (void)atomic_and_ordered(&superblock->zero, ~mask);
    KEEL_ASSERT((zero & ~touched) == 0);
    int64_t count = (int64_t)bit_count(mask);
    slices_count(count, touched == mask ? -count : -(int64_t)bit_count(touched));
    if (touched != mask) (void)atomic_add(&slice_counts.cold, bit_count(mask & ~touched));
    unsigned untouched = touched == 0 ? (unsigned)count : bit_highest(mask) - bit_highest(touched);
    return (struct run){start, touched == zero, touched == mask, untouched};
}

// Makes slices of the caller free again.
void slices_give(struct window* window, unsigned index, uint64_t mask);

#endif

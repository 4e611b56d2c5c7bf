// A set of the superblocks of one window: 1,024 bits, and a summary word with a bit for each of
// their words that is not zero.
//
// The sets are hints about superblocks' free words, kept without a lock by one protocol:
//   a thread that makes the property true:  changes the free word (ordered), then adds to the set
//                                           (ordered);
//   a thread that finds it false:           removes from the set (ordered), reads the free word
//                                           again and adds the superblock back if it is true now.
// In every interleaving one of the two sees the other. So a superblock with the property is never
// lost, and a stale member costs one look. The summary is kept in the same way.
#ifndef KEEL_ALLOCATOR_SLICES_SUPERBLOCK_SET_H
#define KEEL_ALLOCATOR_SLICES_SUPERBLOCK_SET_H

#include "allocator/slices/page_map.h"
#include "base/atomic.h"
#include "base/bits.h"

#define SUPERBLOCK_SET_WORDS (WINDOW_SUPERBLOCKS / 64)

struct superblock_set {
    atomic_bits summary; // bit w: words[w] may be non-zero
    atomic_bits words[SUPERBLOCK_SET_WORDS];
};
_Static_assert(SUPERBLOCK_SET_WORDS <= 64, "one summary word");

KEEL_INLINE void superblock_set_add(struct superblock_set* set, unsigned index) {
    unsigned word = index / 64;
    uint64_t bit = UINT64_C(1) << (index % 64);
    if ((atomic_get_ordered(&set->words[word]) & bit) == 0) {
        (void)atomic_or_ordered(&set->words[word], bit);
    }
    if ((atomic_get_ordered(&set->summary) & (UINT64_C(1) << word)) == 0) {
        (void)atomic_or_ordered(&set->summary, UINT64_C(1) << word);
    }
}

// Adds `count` >= 1 superblocks from `index` on.
static inline void superblock_set_add_range(struct superblock_set* set, unsigned index,
                                            unsigned count) {
    unsigned end = index + count;
    while (index < end) {
        unsigned word = index / 64;
        unsigned first = index % 64;
        unsigned here = 64 - first < end - index ? 64 - first : end - index;
        (void)atomic_or_ordered(&set->words[word], bit_range(first, here));
        (void)atomic_or_ordered(&set->summary, UINT64_C(1) << word);
        index += here;
    }
}

KEEL_INLINE void superblock_set_remove(struct superblock_set* set, unsigned index) {
    unsigned word = index / 64;
    uint64_t bit = UINT64_C(1) << (index % 64);
    if ((atomic_and_ordered(&set->words[word], ~bit) & ~bit) != 0) return;
    (void)atomic_and_ordered(&set->summary, ~(UINT64_C(1) << word));
    if (atomic_get_ordered(&set->words[word]) != 0) {
        (void)atomic_or_ordered(&set->summary, UINT64_C(1) << word);
    }
}

// The lowest member at or above `from`, or WINDOW_SUPERBLOCKS. At most 16 words are looked at.
KEEL_INLINE unsigned superblock_set_next(struct superblock_set* set, unsigned from) {
    if (from >= WINDOW_SUPERBLOCKS) return WINDOW_SUPERBLOCKS;
    unsigned word = from / 64;
    uint64_t bits = atomic_get(&set->words[word]) & (~UINT64_C(0) << (from % 64));
    if (bits != 0) return word * 64 + bit_lowest(bits);
    if (word + 1 >= SUPERBLOCK_SET_WORDS) return WINDOW_SUPERBLOCKS;
    uint64_t summary = atomic_get(&set->summary) & (~UINT64_C(0) << (word + 1));
    while (summary != 0) {
        word = bit_lowest(summary);
        bits = atomic_get(&set->words[word]);
        if (bits != 0) return word * 64 + bit_lowest(bits);
        summary &= summary - 1;
    }
    return WINDOW_SUPERBLOCKS;
}

// The highest member below `end` (1..WINDOW_SUPERBLOCKS), or WINDOW_SUPERBLOCKS.
KEEL_INLINE unsigned superblock_set_last(struct superblock_set* set, unsigned end) {
    unsigned top = (end - 1) / 64;
    uint64_t summary = atomic_get(&set->summary) & bit_range(0, top + 1);
    while (summary != 0) {
        unsigned word = bit_highest(summary);
        uint64_t bits = atomic_get(&set->words[word]);
        if (word == top) bits &= bit_range(0, (end - 1) % 64 + 1);
        if (bits != 0) return word * 64 + bit_highest(bits);
        summary &= ~(UINT64_C(1) << word);
    }
    return WINDOW_SUPERBLOCKS;
}

#endif

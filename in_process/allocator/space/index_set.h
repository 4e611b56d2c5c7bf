// A set of small numbers: 4,096 bits, and a summary word with a bit for each of their words that is
// not zero. The windows keep sets of their superblocks, and the process sets of windows.
//
// The sets are hints about other words (a superblock's free word, a window's set), kept without a
// lock by one protocol:
//   a thread that makes the property true:  changes the other word (ordered), then adds to the set
//                                           (ordered);
//   a thread that finds it false:           removes from the set (ordered), reads the other word
//                                           again and adds to the set if it is true now.
// In every interleaving one of the two sees the other. So a member with the property is never
// lost, and a stale member costs one look. The summary is kept in the same way.
#ifndef KEEL_ALLOCATOR_SPACE_INDEX_SET_H
#define KEEL_ALLOCATOR_SPACE_INDEX_SET_H

#include "base/atomic.h"
#include "base/bits.h"
#include "base/panic.h"
#include <stdbool.h>

#define INDEX_SET_WORDS 64u
#define INDEX_SET_MAX (INDEX_SET_WORDS * 64) // members are smaller

struct index_set {
    atomic_bits summary; // bit w: words[w] may be non-zero
    atomic_bits words[INDEX_SET_WORDS];
};
// False: it was a member already.
KEEL_INLINE bool index_set_add(struct index_set* set, unsigned index) {
    KEEL_ASSERT(index < INDEX_SET_MAX);
    unsigned word = index / 64;
    uint64_t bit = UINT64_C(1) << (index % 64);
    if ((atomic_get_ordered(&set->words[word]) & bit) != 0) return false;
    (void)atomic_or_ordered(&set->words[word], bit);
    if ((atomic_get_ordered(&set->summary) & (UINT64_C(1) << word)) == 0) {
        (void)atomic_or_ordered(&set->summary, UINT64_C(1) << word);
    }
    return true;
}

// Adds `count` >= 1 members from `index` on.
static inline void index_set_add_range(struct index_set* set, unsigned index, unsigned count) {
    KEEL_ASSERT(count > 0 && index < INDEX_SET_MAX && count <= INDEX_SET_MAX - index);
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

// True: another thread has added a member meanwhile, and the set is not empty.
KEEL_INLINE bool index_set_remove(struct index_set* set, unsigned index) {
    KEEL_ASSERT(index < INDEX_SET_MAX);
    unsigned word = index / 64;
    uint64_t bit = UINT64_C(1) << (index % 64);
    if ((atomic_and_ordered(&set->words[word], ~bit) & ~bit) != 0) return false;
    (void)atomic_and_ordered(&set->summary, ~(UINT64_C(1) << word));
    if (atomic_get_ordered(&set->words[word]) == 0) return false;
    (void)atomic_or_ordered(&set->summary, UINT64_C(1) << word);
    return true;
}

// The lowest member at or above `from`, or INDEX_SET_MAX. At most 64 words are looked at.
KEEL_INLINE unsigned index_set_next(struct index_set* set, unsigned from) {
    if (from >= INDEX_SET_MAX) return INDEX_SET_MAX;
    unsigned word = from / 64;
    uint64_t bits = atomic_get(&set->words[word]) & (~UINT64_C(0) << (from % 64));
    if (bits != 0) return word * 64 + bit_lowest(bits);
    if (word + 1 >= INDEX_SET_WORDS) return INDEX_SET_MAX;
    uint64_t summary = atomic_get(&set->summary) & (~UINT64_C(0) << (word + 1));
    while (summary != 0) {
        word = bit_lowest(summary);
        bits = atomic_get(&set->words[word]);
        if (bits != 0) return word * 64 + bit_lowest(bits);
        summary &= summary - 1;
    }
    return INDEX_SET_MAX;
}

// The highest member below `end` (1..INDEX_SET_MAX), or INDEX_SET_MAX.
KEEL_INLINE unsigned index_set_last(struct index_set* set, unsigned end) {
    KEEL_ASSERT(end > 0 && end <= INDEX_SET_MAX);
    unsigned top = (end - 1) / 64;
    uint64_t summary = atomic_get(&set->summary) & bit_range(0, top + 1);
    while (summary != 0) {
        unsigned word = bit_highest(summary);
        uint64_t bits = atomic_get(&set->words[word]);
        if (word == top) bits &= bit_range(0, (end - 1) % 64 + 1);
        if (bits != 0) return word * 64 + bit_highest(bits);
        summary &= ~(UINT64_C(1) << word);
    }
    return INDEX_SET_MAX;
}

#endif

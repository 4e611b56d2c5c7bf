// The live blocks that a recording has sampled, and the distances between samples. This file
// depends on nothing else of the recorder.
//
// A recording of samples records an allocation with a probability that depends on its size only,
// and the release of each block whose allocation it recorded. A thread counts the bytes that it
// allocates down from a random number with an exponential distribution of mean `sample_bytes`, and
// records the allocation that reaches 0. Then it draws the next number. Because the distribution
// has no memory, an allocation of `size` bytes is recorded with the probability
//
//   p = 1 - exp(-(size + 1) / sample_bytes)
//
// independently of all others, and represents 1 / p allocations. The added byte makes empty blocks
// count. lab/journal/src/sampling.rs has the same formula.
//
// A free must learn quickly that its block is no sample. It reads a counter: how many samples begin
// in the block's system page, or in another page with the same counter. Neighbouring pages have
// neighbouring counters of one byte, so the counters that a program needs are in few cache lines. A
// counter that has reached 255 stays so. Only when the counter is not 0 the set of blocks is
// searched.
//
//   set:  SAMPLED_SLOTS addresses; a block is in one of the WINDOW slots from its hash on, and not
//         beyond the last one that was needed so far
//
// All functions may be called by several threads and by signal handlers at once.
#ifndef KEEL_RECORDER_SAMPLED_H
#define KEEL_RECORDER_SAMPLED_H

#include "base/atomic.h"
#include "base/attributes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMPLED_PAGES = 1 << 16, SAMPLED_SLOTS = 1 << 20, SAMPLED_PAGE_SHIFT = 12 };

// What every call reads, in one cache line: a program that waits between its requests finds little
// of this in the caches.
struct sampled_state {
    atomic_small* _Atomic pages; // the counters; NULL: no samples are taken
    atomic_bits mask;            // all bits while samples are taken, else none
    // From the thread pointer to a thread's countdown, while samples are taken and the program's
    // malloc is flat (sampling.h); else 0.
    atomic_word distance;
};
extern KEEL_HIDDEN struct sampled_state sampled_state;

// The index of the counter of a block.
KEEL_INLINE uint16_t sampled_page(const void* block) {
    return (uint16_t)((uint64_t)block >> SAMPLED_PAGE_SHIFT);
}
_Static_assert(SAMPLED_PAGES == 1 << 16, "an index has 16 bits");

// False: the block is no sample. True: everything is recorded, or the block may be a sample.
KEEL_INLINE bool sampled_maybe(const void* block) {
    const atomic_small* pages = atomic_get(&sampled_state.pages);
    if (KEEL_UNLIKELY(pages == NULL)) return true;
    return KEEL_UNLIKELY(atomic_get(&pages[sampled_page(block)]) != 0);
}

// Begins to take samples, with an empty set. False: there is no memory for it.
bool sampled_begin(void);

// From now on everything is recorded, or nothing.
void sampled_end(void);

// Adds a block. False: there is no room.
bool sampled_add(const void* block);

// Removes a block. False: it is not in the set.
bool sampled_remove(const void* block);

// Draws a number of bytes: floor(X), where X has an exponential distribution with this mean, which
// is below 2^34. `random` is the state of the generator.
uint64_t sampled_distance(uint64_t* random, uint64_t mean);

#endif

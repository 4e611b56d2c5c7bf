// Whether the program fills its large blocks below FRESH_BYTES_MIN, which lie in slices.
//
// If there are no warm slices for a block, a thread can populate a unit of 2 MiB and take the block
// from there (reserve.h). This costs a fraction of the block's page faults. But then the block
// occupies all of its memory, even if the program touches only a part of it. So while nothing is
// known, blocks are taken from units only within a budget (reserve_affords_unknown). Others get
// cold slices, in which each touched page shows, and a later allocation looks at these blocks:
//
//   first blocks without warm slices --> from units; when the budget is spent: cold, watched
//   next such blocks                 --> look at the watched ones: which part of them is filled?
//      part of the last blocks >= FILLING_PART: the next ones may be taken from units, but instead
//      of every FILLING_PROBE_DRAWS-th unit there is a probe: cold and watched, too; if the part is
//      at least FILLING_PART_SURE, instead of every FILLING_PROBE_DRAWS_MAX-th
//
// A block is judged when it is wholly filled, or after FILLING_LOOKS looks. Each one counts as much
// as all before it together, so one that is not filled at all ends the units. Half-filled blocks
// take units: they occupy up to twice the memory, and a fraction of the page faults.
//
// Bounds: an allocation without warm slices makes at most 3 * FILLING_PLACES system calls; others
// make none. A watched block may have ended meanwhile: its slices remain mapped, and
// only residence is asked for.
#ifndef KEEL_ALLOCATOR_SLICES_FILLING_H
#define KEEL_ALLOCATOR_SLICES_FILLING_H

#include <stdbool.h>
#include <stddef.h>

#define FILLING_PLACES 4u
#define FILLING_JUDGED 2u // blocks, before any more may be taken from units
#define FILLING_PART 144u // in 256ths
#define FILLING_PART_SURE 224u
#define FILLING_PART_NONE 32u
#define FILLING_LOOKS 4u
#define FILLING_PROBE_DRAWS 4u
#define FILLING_PROBE_DRAWS_MAX 8u

enum filling {
    FILLING_UNKNOWN,
    FILLING_DOUBTED, // or the block is a probe: it should get cold slices
    FILLING_EXPECTED // the block may occupy all of its memory
};

// Of the next block. Looks at the watched blocks. Any thread.
enum filling filling_of_next(void);

// The same without a look. Seen: the blocks seen last were not all empty.
bool filling_is_unknown(void);
bool filling_is_seen(void);

// Watches a block on cold slices, if there is a place.
void filling_watch(char* start, size_t bytes);

#endif

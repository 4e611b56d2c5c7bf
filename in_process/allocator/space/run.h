// Runs of slices, taken and released without a lock. They are taken from the windows of the
// thread's partition.
//
// Idea: TLSF's "list of the longest free runs" on bitmaps, one word for the 64 slices of a
// superblock. Superblocks are filed by the power of two that their longest free run reaches. A
// search tries the lowest address first, which keeps the low superblocks dense and lets the high
// ones become empty. Slices that already occupy memory are preferred: they cost no page fault and
// no further memory. The thread that clears the bits of a run in one compare-and-swap owns it; it
// releases the run by setting them.
//
// Bound: a search looks at no more than RUN_WINDOWS windows twice, however many there are, and
// tries at most RUN_PROBES superblocks of each set of a window, with at most RUN_TRIES
// compare-and-swaps on them together, before the address space grows.
//
// superblock.h: the bits and sets of one superblock. range.h: runs of several. huge_unit.h: the
// huge zone. run.c searches, run_release.c releases, run_reclaim.c takes free slices for the
// reserve.
#ifndef KEEL_ALLOCATOR_SPACE_RUN_H
#define KEEL_ALLOCATOR_SPACE_RUN_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_SLICES_MAX 1024u // 64 MiB; a larger block is always a jumbo (jumbo.h)

struct run {
    char* start;        // NULL: no memory
    bool zero;          // every byte is known to be zero
    bool warm;          // all of it has been touched: using it takes no page fault
    unsigned untouched; // slices at its end that were not touched: they occupy no memory
};

// The slices to prefer. Warm ones cost neither a page fault nor further memory: right for memory
// that is used soon and wholly. Memory that may never be filled is better on small pages, outside
// of the huge zone: there only what is touched of it becomes resident.
enum run_preference { RUN_WARM, RUN_SMALL, RUN_ANY };

// As run_allocate, with a preference; slices <= RUN_NARROW.
struct run run_allocate_narrow(unsigned slices, enum run_preference preference);

// `slices` in 1..RUN_SLICES_MAX. A run of more than 64 consists of whole superblocks except for its
// last slices.
struct run run_allocate(unsigned slices);

// As run_allocate_narrow, but maps no address space. `everywhere`: looks at every superblock, for
// when the system refuses memory.
struct run run_allocate_mapped(unsigned slices, bool everywhere);

// As run_allocate, but only from memory that takes no page fault. NULL: none was found.
struct run run_allocate_warm(unsigned slices);

// As run_allocate, for a block that has grown and may grow again: if possible with free room behind
// it for twice the slices. The room is not taken.
struct run run_allocate_growing(unsigned slices);

// As run_allocate_narrow; the run begins at a multiple of `alignment` slices, a power of two. If
// that is more than 1, both are at most 64.
struct run run_allocate_aligned(unsigned slices, unsigned alignment,
                                enum run_preference preference);

// Also for a part of a run.
void run_release(char* start, unsigned slices);

// Releases a run without memory: it is all zero and occupies none. Not in an arena. Closes whole
// units of the huge zone.
void run_release_empty(char* start, unsigned slices);

// Takes the slices that follow the run, if they are free and in the same window. False: nothing
// changed. At most RUN_TRIES compare-and-swaps for each superblock.
bool run_extend(char* start, unsigned slices, unsigned new_slices);

// Slices taken so far by runs of at most RUN_NARROW slices, which the keeper's reserve serves.
// Never decreases. Sums the shards of a counter.
#define RUN_NARROW 64u // 4 MiB
size_t run_narrow_taken(void);

// Slices of such runs that should have been warm and were not.
size_t run_narrow_missed(void);

// Slices taken so far that had not been touched. Never decreases.
size_t run_cold_taken(void);

// Slices given out, and free slices that may occupy memory. Approximate while other threads run.
size_t run_live_slices(void);
size_t run_dirty_slices(void);

// Verifies that every superblock's state is possible; only when no other thread is active.
bool run_check(void);

// --- For reserve.c, which takes free slices while it discards or populates their memory ----------

struct free_run {
    char* start;
    unsigned slices; // 0: none found
};
// Takes free slices that may occupy memory, from the highest address on. The keeper's large steps
// prefer whole units of the huge zone: such a run is longer than slices_max.
struct free_run run_take_dirty(unsigned slices_max);
// True if it is a part of units of the huge zone.
bool run_splits_unit(struct free_run run);
// Takes free slices of partition 0 that do not occupy memory, from the lowest address on.
struct free_run run_take_cold(unsigned slices_max);
// Takes a closed unit of the huge zone, 2 MiB. Any thread. slices 0: there is none, or other
// threads are mapping the next groups of them.
struct free_run run_take_closed(void);
// Makes a closed unit free as it is, for when the system refuses other memory: its first use takes
// the fault that zeroes 2 MiB. False: there is none, or the thread's partition is not 0.
bool run_open_closed(void);
// Returns them in this state. The result: how many of them may have had memory before.
enum run_state {
    RUN_DISCARDED, // occupies no memory; a unit of the huge zone is closed
    RUN_POPULATED, // occupies memory, all zero
    RUN_AS_BEFORE  // unchanged
};
unsigned run_return(struct free_run run, enum run_state state);

#endif

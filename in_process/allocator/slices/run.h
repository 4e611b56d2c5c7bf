// Runs of slices, taken and given back without a lock.
//
// Idea: TLSF's "list of the longest free runs" on bitmaps, one word for the 64 slices of a
// superblock. Superblocks are filed by the power of two that their longest free run reaches; the
// lowest address is tried first, which keeps the low superblocks dense and lets the high ones
// empty. Slices that already occupy memory go before slices that do not: they cost no page fault
// and no further memory. A run is owned by whoever cleared its bits in one compare-and-swap; it is
// given back by setting them.
//
// Bound: at most RUN_PROBES superblocks of a window are tried, each with RUN_TRIES
// compare-and-swaps, before a new window.
#ifndef KEEL_ALLOCATOR_SLICES_RUN_H
#define KEEL_ALLOCATOR_SLICES_RUN_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_SLICES_MAX 1024u // 64 MiB; beyond that a mapping of its own (jumbo)

struct run {
    char* start; // NULL: no memory
    bool zero;   // every byte is known to be zero
    bool warm;   // all of it has been touched: using it takes no page fault
};

// Which slices are preferred. Warm ones cost neither a page fault nor further memory: right for
// what will be used soon and wholly. Cold ones occupy only what is touched of them: right for what
// may never be filled.
enum run_preference { RUN_WARM, RUN_COLD, RUN_ANY };

// As run_allocate for slices <= RUN_NARROW, by preference.
struct run run_allocate_narrow(unsigned slices, enum run_preference preference);

// `slices` in 1..RUN_SLICES_MAX. Above 64 the run consists of whole superblocks but for its last
// slices.
struct run run_allocate(unsigned slices);

// The same for a block that has grown and will again: where there is such a place, with room behind to
// extend it to twice the slices. The room is not taken.
struct run run_allocate_growing(unsigned slices);

// start is a multiple of alignment_slices * 64 KiB; slices + alignment_slices - 1 <= 64.
struct run run_allocate_aligned(unsigned slices, unsigned alignment_slices);

void run_release(char* start, unsigned slices);

// As run_release, for a part of a run: counts no event.
void slices_release(char* start, unsigned slices);

// The same for one whose memory has been taken away: it is all zero and occupies none. Not in a region.
// Whole units of the huge zone are closed by it.
void run_release_empty(char* start, unsigned slices);

// Takes the slices that follow the run, if they are free and in the same window. False: nothing
// changed. At most RUN_TRIES compare-and-swaps for each superblock.
bool run_extend(char* start, unsigned slices, unsigned new_slices);

// Slices taken by runs of at most RUN_NARROW slices so far: what the keeper's reserve is for. Never
// decreases.
#define RUN_NARROW 64u // 4 MiB
size_t run_narrow_taken(void);

// Slices handed out, and slices free that may occupy memory. Momentary.
size_t run_live_slices(void);
size_t run_dirty_slices(void);

// Verifies that every superblock's state is possible; only when no other thread is active.
bool run_check(void);

// --- for stock.c, which takes free slices for the moment in which it discards or populates their
// memory ---
struct free_run {
    char* start;
    unsigned slices; // 0: none found
};
// Free slices that may occupy memory, from the highest address; and such that never did, from the
// lowest.
// Of the huge zone the keeper's large steps take whole units only: such a run is longer than slices_max.
struct free_run run_take_dirty(unsigned slices_max);
struct free_run run_take_cold(unsigned slices_max);
// A unit of the huge zone that nobody can touch yet, 2 MiB. Any thread.
struct free_run run_take_closed(void);
// Gives them back as they are now.
enum run_state {
    RUN_DISCARDED, // occupies no memory. A unit of the huge zone is closed then
    RUN_POPULATED, // occupies memory, and was given back with the zeros that the system put there
    RUN_AS_BEFORE  // as it was when it was taken
};
void run_return(struct free_run run, enum run_state state);

#endif

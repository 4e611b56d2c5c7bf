// Runs of slices, taken and given back without a lock.
//
// Idea: TLSF's "list of the longest free runs" on bitmaps, one word for the 64 slices of a superblock. Superblocks are
// filed by the power of two that their longest free run reaches; the lowest address is tried first, which keeps the
// low superblocks dense and lets the high ones empty. A run is owned by whoever cleared its bits in one
// compare-and-swap; it is given back by setting them.
//
// Bound: at most RUN_PROBES superblocks of a window are tried, each with RUN_TRIES compare-and-swaps, before a new window.
#ifndef KEEL_ALLOCATOR_ARENA_RUN_H
#define KEEL_ALLOCATOR_ARENA_RUN_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_SLICES_MAX 256u // 16 MiB; beyond that a mapping of its own (jumbo)

struct run {
    char* start; // NULL: no memory
    bool zero;   // every byte is known to be zero
};

// `slices` in 1..RUN_SLICES_MAX. Above 64 the run consists of whole superblocks but for its last slices.
struct run run_allocate(unsigned slices);

// start is a multiple of alignment_slices * 64 KiB; slices + alignment_slices - 1 <= 64.
struct run run_allocate_aligned(unsigned slices, unsigned alignment_slices);

void run_release(char* start, unsigned slices);

// Takes the slices that follow the run, if they are free and in the same superblock. False: nothing changed.
bool run_extend(char* start, unsigned slices, unsigned new_slices);

// Slices handed out, and slices free that may occupy memory. Momentary.
size_t run_live_slices(void);
size_t run_dirty_slices(void);

// Verifies that every superblock's state is possible; only when no other thread is active.
bool run_check(void);

// --- for purge.c, which takes free slices for the moment in which it discards their memory ---
struct dirty_run {
    char* start;
    unsigned slices; // 0: none found
};
struct dirty_run run_take_dirty(unsigned slices_max);
void run_return(struct dirty_run run, bool clean);

#endif

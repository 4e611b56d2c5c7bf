// The stock: slices that are free and occupy memory. Two forces act on it.
//
//   dirty count
//     ^          surplus: more than was needed in a whole period  -> discarded, a quantum at a time
//     |  ------- what a period needed at most
//     |          the stock that slow paths draw from without a page fault
//     |  ------- reserve
//     |          less than the reserve                            -> the keeper populates cold ones
//     +-->
//
// What is surplus? Slices that were free and dirty during a whole period (OPTION_RESET_DELAY)
// were not needed in it: the *minimum* of the dirty count over a period, less the reserve, is its
// surplus, and is given back in the next. A program that frees and allocates the same 10 MiB every
// frame has a minimum near 0 and pays nothing; after a burst the minimum is the burst. (The idea is
// that of working-set estimation; jemalloc's decay comes to the same by a curve.) Without a keeper
// the stock besides may not exceed half of what is live + 32 MiB: above that each release works off
// a quantum at once. The release of a block beyond the contract's limit gives back as much as it
// released if the stock is above three quarters of what is live + 4 MiB.
//
// Bound: one call of reserve_step makes at most one madvise, of at most PURGE_QUANTUM_SLICES; with a
// keeper it does nothing.
#ifndef KEEL_ALLOCATOR_SLICES_RESERVE_H
#define KEEL_ALLOCATOR_SLICES_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PURGE_QUANTUM_SLICES 1u

// Called by slow paths that took slices: notes how low the dirty count went.
void reserve_note(void);

// Called by slow paths that gave back slices: works off one quantum if something is due and no
// keeper does it.
void reserve_step(void);

// The same after the release of a block of so many slices, more than RESERVE_LARGE_SLICES: such a block
// is outside of the latency contract, so all of it may be worked off at once.
#define RESERVE_LARGE_SLICES ((size_t)64) // 4 MiB
void reserve_step_large(size_t slices);

// Discards at most slices_max slices in one call to the system. The number discarded; 0: none free,
// or refused.
size_t reserve_discard(unsigned slices_max);

// Populates at most slices_max slices in one call to the system, metadata too. 0: no memory, or not
// supported.
size_t reserve_populate(unsigned slices_max);

// Populates a unit of the huge zone, 2 MiB: as one huge page where the system has one to give. Any
// thread that may take 0.3 ms. 0 as above.
size_t reserve_populate_huge(void);

// Gives back everything that is free. Unbounded; for explicit requests.
void reserve_discard_all(void);

// --- for the keeper ---

// True while a keeper looks after the stock, and after all else that nobody's thread does.
bool reserve_has_keeper(void);

// While true, reserve_step leaves everything to the keeper.
void reserve_set_keeper(bool kept);

// True once the program has asked for warm memory itself: then every page is to begin warm.
void reserve_set_preferred(bool preferred);
bool reserve_is_preferred(void);

// Slices that are to be in stock; surplus is what exceeds it.
void reserve_set_target(size_t slices);
size_t reserve_target(void);

// Closes the period if it is over; then the slices that are due to be discarded.
size_t reserve_surplus(void);
// So many of them have been.
void reserve_surplus_done(size_t slices);

// --- The limit (KEEL_LIMIT) ---------------------------------------------------------------------

// Bytes handed out: what the limit is about.
size_t limit_held_bytes(void);

// True if `bytes` more stay within the limit, or there is none. Of this moment: threads that ask at once may together
// go beyond it by what each of them takes.
bool limit_admits(size_t bytes);

#endif

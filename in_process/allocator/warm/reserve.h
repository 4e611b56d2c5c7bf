// Populating and discarding free slices, as the policy (policy.h) demands. Free slices that occupy
// memory are *dirty*; requests take them first, without a page fault.
//
// Bound: one call of reserve_step returns at most PURGE_QUANTUM_SLICES, with one call to the system
// (two in a unit), and at most 1 MiB of a freed mapping, with three. If a keeper runs, it does
// nothing.
#ifndef KEEL_ALLOCATOR_WARM_RESERVE_H
#define KEEL_ALLOCATOR_WARM_RESERVE_H

#include "allocator/warm/policy.h"
#include <stdbool.h>
#include <stddef.h>

#define PURGE_QUANTUM_SLICES 1u

// Called by slow paths that took slices. Returns warm memory if the control group has no room for
// it, with at most CAP_CALLS calls to the system, even if a keeper runs.
#define CAP_CALLS 32u
void reserve_note(void);

// Called by slow paths that released slices: discards one quantum if some is due and no keeper
// runs. False: there was nothing to do.
bool reserve_step(void);

// The same after the release of a mapping or of more than RESERVE_LARGE_SLICES slices, and even if
// a keeper runs. One call returns at most as much as the block had. The latency contract does not
// cover blocks of more than RESERVE_LARGE_SLICES: at most 44 calls to the system, else 12.
#define RESERVE_LARGE_SLICES ((size_t)64) // 4 MiB
void reserve_step_large(size_t slices);

// Discards at most slices_max slices, or a unit of the huge zone, in one call to the system.
// Returns how many of them may have had memory; 0: none are free, or the system refused.
size_t reserve_discard(unsigned slices_max);

// Populates at most slices_max slices, and their metadata, in one call to the system, after those
// that map new slices if no cold one is left. 0: no memory, or not supported.
size_t reserve_populate(unsigned slices_max);

// Populates a unit of the huge zone, 2 MiB, as one huge page if the system has one. May take 0.3
// ms; any thread. 0 as above.
size_t reserve_populate_huge(void);

// The same if the policy admits a unit of which `slices` are needed at once. Not in a limited
// address space, where other blocks cannot use units that are closed.
size_t reserve_populate_unit(unsigned slices);

// Takes warm slices for memory that will be filled. If none fit, and the policy admits it, this
// thread populates a unit. Start NULL: no warm slices.
struct run reserve_take(unsigned slices);
// The second half of that: for a caller that has found no warm slices. slices <= HUGE_SLICES.
struct run reserve_take_of_unit(unsigned slices);

// True while a thread populates or discards slices, which no other thread can take meanwhile.
bool reserve_is_maintained(void);

// In the child of a fork, which has only the forking thread.
void reserve_forget(void);

// Verifies that no run is held; only when no other thread is active.
bool reserve_check(void);

// Discards all free slices. Unbounded; for explicit requests.
void reserve_discard_all(void);

// --- The limit (KEEL_LIMIT) ----------------------------------------------------------------------

// Bytes given out to pages and large blocks together.
size_t limit_held_bytes(void);

// True if `bytes` more stay within the limit, or there is none. Threads that ask at the same time
// may together exceed it by what each of them takes.
bool limit_admits(size_t bytes);

#endif

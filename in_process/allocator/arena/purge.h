// Giving unused memory back, a quantum at a time.
//
// What is surplus? Slices that were free and dirty during a whole period (options.purge_delay_ms) were not needed in
// it: the *minimum* of the dirty count over a period is its surplus, and is given back in the next. A program that
// frees and allocates the same 10 MiB every frame has a minimum near 0 and pays nothing; after a burst the minimum is
// the burst. (The idea is that of working-set estimation; jemalloc's decay approximates the same by a curve.)
// Besides, what is free may not exceed half of what is live + 32 MiB: then each release gives back at once as much as
// it released.
//
// Bound: one call of purge_step makes at most one madvise, of at most PURGE_QUANTUM_SLICES.
#ifndef KEEL_ALLOCATOR_ARENA_PURGE_H
#define KEEL_ALLOCATOR_ARENA_PURGE_H

#include <stddef.h>
#include <stdint.h>

#define PURGE_QUANTUM_SLICES 4u

// Called by slow paths that took slices: notes how low the dirty count went.
void purge_note(void);

// Called by slow paths that gave back slices: works off one quantum if something is due.
void purge_step(void);

// Gives back everything that is free. Unbounded; for explicit requests.
void purge_all(void);

#endif

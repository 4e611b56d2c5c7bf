// The keeper: one thread that takes work off the callers' paths.
//
//   each tick: demand of the last 8 ticks -> reserve
//              stock below the reserve    -> populate cold slices: malloc finds warm ones
//              surplus in the stock       -> discard: memory goes back without further calls
//              parked heaps               -> drain, release what is empty
//              idle heaps                 -> release the slices they keep, relieve them of mail
//              realtime threads           -> fill their spares
//
// It ticks ten times a millisecond while the reserve is drawn on fast, every millisecond while there
// is demand, less and less often when there is none, and then every second; who meets an empty
// reserve wakes it. It never holds a lock across a system
// call and never allocates. Nothing depends on it: without it (off, forked child) each slow path
// works off a quantum itself.
//
//   OFF --second heap, 2 MiB with KEEL_KEEPER=on, or keeper_start--> RUNNING;  in a forked child: OFF again
#ifndef KEEL_ALLOCATOR_KEEPER_KEEPER_H
#define KEEL_ALLOCATOR_KEEPER_KEEPER_H

#include "allocator/heap/pool.h"
#include "base/atomic.h"
#include "base/options.h"
#include <stdbool.h>
#include <stddef.h>

#define KEEPER_RESERVE_MIN ((size_t)4)   // slices: 256 KiB
#define KEEPER_RESERVE_MAX ((size_t)512) // slices: 32 MiB

// Starts the keeper if it does not run and is not forbidden (KEEL_KEEPER=off). False: it does not
// run. May allocate.
bool keeper_start(void);
bool keeper_runs(void);

// From now on the keeper may start by itself: the process's constructors are done.
void keeper_allow(void);

// Starts the keeper once the options, the number of threads and what they hold call for it;
// ends a long sleep of the keeper if the stock is below the reserve (one system call then).
void keeper_consider(void);

// Called by slow paths: does this if the thread has drawn on the arena since the last time.
KEEL_INLINE void keeper_notice(void) {
    struct heap* heap = thread_heap;
    if (KEEL_LIKELY(heap->draws == heap->considered)) return;
    heap->considered = heap->draws;
    keeper_consider();
}

// Populates until so many bytes are in stock, and keeps the reserve no smaller from now on. The
// bytes in stock, <= bytes.
size_t keeper_warm(size_t bytes);

// Housekeeping of the calling thread's heap, and of the stock if there is no keeper. Bounded.
void keeper_thread_idle(void);

// The calling thread keeps so much warm memory of its own (at most 2 MiB; 0: none any more), and no
// housekeeping is done in its calls. False: no memory.
bool keeper_thread_set_realtime(size_t spare_bytes);

// In the child of a fork: there is no keeper any more.
void keeper_forget(void);

#endif

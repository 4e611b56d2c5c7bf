// The keeper: a thread that does maintenance, so that the program's calls need not.
//
//   each tick: demand of the last 16 periods -> target of the reserve
//              reserve below its target      -> populate cold slices: malloc finds warm ones;
//                                               not near a limit on memory (headroom.h)
//              surplus in the reserve        -> discard: memory returns to the system
//              watched heaps (watch.h), if
//                parked                      -> drain, release empty pages
//                idle                        -> release the slices they keep, relieve them
//                of a realtime thread        -> fill its spare
//
// It ticks every millisecond while there is demand. Without demand the interval grows up to a
// second. A thread that finds the reserve below its target, or that has missed warm slices, wakes
// the keeper. The keeper never holds a lock across a system call and
// never allocates. Keel works without it too (KEEL_KEEPER=off, or in a forked child): then each
// slow path does a quantum of the work.
//
//   OFF --2 MiB live and a second heap, or keeper_start--> RUNNING --fork's child--> OFF
//   any --the system refuses, or the first thread ends--> REFUSED --fork's child--> OFF
//
// With KEEL_KEEPER=on 2 MiB are enough. Otherwise a process of one thread has no keeper: some of
// what such a process does, the system and the C library allow to a process of one thread only.
#ifndef KEEL_ALLOCATOR_KEEPER_KEEPER_H
#define KEEL_ALLOCATOR_KEEPER_KEEPER_H

#include "allocator/heap/pool.h"
#include "base/atomic.h"
#include "base/options.h"
#include <stdbool.h>
#include <stddef.h>

// Starts the keeper unless it runs already or is forbidden (KEEL_KEEPER=off). False: it does not
// run. May allocate.
bool keeper_start(void);
bool keeper_runs(void);

// Allows the keeper to start by itself: the process's constructors have run.
void keeper_allow(void);

// Starts the keeper once the options, the number of threads and the memory in use require it; wakes
// it from a long sleep if the reserve is below its target (then one system call).
void keeper_consider(void);

// Called by slow paths: calls keeper_consider if the thread has taken slices since the last time.
KEEL_INLINE void keeper_notice(void) {
    struct heap* heap = thread_heap;
    if (KEEL_LIKELY(heap->draws == heap->considered)) return;
    heap->considered = heap->draws;
    keeper_consider();
}

// Populates slices until `bytes` are warm and free, and keeps the target at least there from now
// on. Returns the bytes that are warm and free, at most `bytes`.
size_t keeper_warm(size_t bytes);

// Housekeeping for the calling thread's heap, and for the reserve if there is no keeper. Bounded.
void keeper_thread_idle(void);

// Gives the calling thread a spare of warm memory (at most 2 MiB; 0: none) and does no maintenance
// in its calls from now on. False: no memory.
bool keeper_thread_set_realtime(size_t spare_bytes);

// The program's first thread ends, and others remain. The C library ends the process when the last
// thread does: that must not be the keeper, so it ends now, and no other one starts. Returns when
// it has ended.
void keeper_end(void);

// In the child of a fork, which has no keeper.
void keeper_forget(void);

// Verifies the state of the keeper; only when no other thread is active.
bool keeper_check(void);

#endif

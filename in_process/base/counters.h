// Process-wide counts. The report that reads them is in api/.
//
// EVENTS are always counted: each is on a path that costs far more than the addition. WORK is
// counted in KEEL_COUNT builds only, and keeps the *largest* amount that one call did. The tests
// compare it with the bounds.
#ifndef KEEL_BASE_COUNTERS_H
#define KEEL_BASE_COUNTERS_H

#include "base/atomic.h"

enum event {
    EVENT_MAP,           // mmap and mprotect calls
    EVENT_UNMAP,         // munmap calls
    EVENT_REMAP,         // mremap calls
    EVENT_PURGE,         // madvise calls that return memory
    EVENT_PURGED_SLICES, // slices whose memory was returned
    EVENT_INLINE_CALLS,  // any of the calls above and below on a thread of the program
    // first touches by the allocator, on a thread of the program, of memory that may be absent
    EVENT_INLINE_FAULTS,
    EVENT_POPULATE,         // madvise calls that ask for memory ahead of use
    EVENT_POPULATED_SLICES, // slices whose memory was asked for ahead of use
    EVENT_POPULATE_REFUSED, // runs of slices that the system did not populate, or not completely
    EVENT_RESERVE_MISS,     // pages begun on memory that had not been touched
    EVENT_UNITS,            // units of 2 MiB that threads of the program populated
    EVENT_RELIEVED_PAGES,   // pages that the keeper released for a thread that sleeps
    EVENT_EMPTIED_PAGES,    // pages that the keeper emptied in the queue of such a thread
    EVENT_SLICES_TAKEN,     // slices taken by runs of at most 4 MiB
    EVENT_JUMBO_ALLOCATED,
    EVENT_JUMBO_RELEASED,
    EVENT_HEAP_CREATED,
    EVENT_HEAP_ADOPTED,
    EVENT_HEAP_PARKED,
    EVENT_HEAP_LOOKS,   // heaps that the keeper has looked at
    EVENT_GUARDED,      // allocations that guarded sampling placed against a guard page
    EVENT_GUARD_MISSED, // allocations that it chose and had no place for
    EVENT_FOREIGN_FREE, // frees of pointers that are not Keel's
    EVENT_OUT_OF_MEMORY,
    EVENT_COUNT
};

enum work {
    WORK_CARVE_LINKS,  // links written by one carve
    WORK_DRAIN_PAGES,  // pages whose remote lists one drain takes
    WORK_PAGE_PROBES,  // pages looked at by one refill
    WORK_RUN_TRIES,    // compare-and-swap tries of one run allocation in one window
    WORK_RUN_WINDOWS,  // windows searched by one search for a run
    WORK_PURGE_SLICES, // slices purged by one quantum
    WORK_RECLAIM,      // blocks put back and pages released by one step for a parked heap
    WORK_RELIEF_STEP,  // units of work done by the keeper in one step, under the relief lock
    WORK_COUNT
};

// EVENT_INLINE_FAULTS is the event of a thread that refills from its own pages: it shares no line
// with other threads. So it has more shards; the keeper sums the other events.
#define FAULT_SHARDS 16u // of each event shard; a power of two
struct fault_shard {
    KEEL_ALIGNED(KEEL_CACHE_LINE) atomic_bits count;
};

// Threads count events in different shards, so that they do not wait for each other's cache lines.
// Those of one thread are close together.
#define EVENT_SHARDS 16u // a power of two
struct event_shard {
    KEEL_ALIGNED(KEEL_CACHE_LINE) atomic_bits events[EVENT_COUNT];
    struct fault_shard faults[FAULT_SHARDS];
};

struct counters {
    struct event_shard shards[EVENT_SHARDS];
    atomic_bits worst[WORK_COUNT];
};
extern struct counters counters;

// The clock and cycles_now at process start. Constant from then on.
struct counted_since {
    uint64_t ms;
    uint64_t cycles;
};
extern struct counted_since counted_since;

const char* event_name(enum event event);
const char* work_name(enum work work);
// The bound that the design gives for one call.
uint64_t work_bound(enum work work);

// The shard of this thread, by the 8 MiB of address space in which its stack is.
KEEL_INLINE struct event_shard* event_shard(unsigned* fault_shard) {
    uintptr_t number = (uintptr_t)__builtin_frame_address(0) >> 23;
    *fault_shard = (unsigned)(number / EVENT_SHARDS) % FAULT_SHARDS;
    return &counters.shards[number % EVENT_SHARDS];
}

// Any event except EVENT_INLINE_FAULTS.
KEEL_INLINE void count_event(enum event event, uint64_t by) {
    unsigned fault_shard;
    (void)atomic_add(&event_shard(&fault_shard)->events[event], by);
}
KEEL_INLINE void count_fault(void) {
    unsigned fault_shard;
    struct event_shard* shard = event_shard(&fault_shard);
    (void)atomic_add(&shard->faults[fault_shard].count, 1);
}

// The sum over all shards.
uint64_t event_total(enum event event);

// A call did more than its bound: ends the process. KEEL_COUNT builds only.
KEEL_COLD void work_exceeded(enum work work);

KEEL_INLINE void count_work(enum work work, uint64_t amount) {
    if (KEEL_COUNT && amount > atomic_get(&counters.worst[work])) {
        if (amount > work_bound(work)) work_exceeded(work);
        // Not atomic: of two maxima at the same time one may be lost. The tests repeat.
        atomic_set(&counters.worst[work], amount);
    }
}

#endif

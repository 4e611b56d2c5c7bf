// Histograms of the durations of the slow paths, one set for each heap.
//
// Durations are in units of cycles_now. The highest bit of a duration selects its bucket. Only
// paths that cost far more than two readings of the clock are timed. Refills of a bin from its page
// are counted (HEAP_REFILLS) and not timed.
#ifndef KEEL_ALLOCATOR_HEAP_SLOW_PATH_H
#define KEEL_ALLOCATOR_HEAP_SLOW_PATH_H

#include "base/atomic.h"
#include "base/bits.h"
#include "base/cycles.h"
#include "base/probe.h"

enum slow_path {
    SLOW_PATH_DRAIN,        // accepting blocks that other threads freed
    SLOW_PATH_FRESH_PAGE,   // beginning a page on unused memory
    SLOW_PATH_PAGE_EMPTIED, // a free that left a page without used blocks
    // Blocks above 64 KiB, except those whose slices the heap has kept or keeps (heap_keep_run):
    // these calls are as short as a few readings of the clock. One in SLOW_PATH_LARGE_DRAWS of the
    // others is timed, and counts so often: many take about as long as the readings, too.
    SLOW_PATH_LARGE_MALLOC,
    SLOW_PATH_LARGE_FREE,
    SLOW_PATH_REMOTE_SENT, // a free that announced a page: its work for parked heaps
    SLOW_PATH_COUNT
};

#define SLOW_PATH_LARGE_DRAWS 4u
#define SLOW_PATH_BUCKETS 32u // the last one counts all longer durations

struct slow_path_times {
    // Owner adds, any thread reads.
    _Atomic(uint32_t) counts[SLOW_PATH_COUNT][SLOW_PATH_BUCKETS];
};

// The call stands for `calls` calls.
KEEL_INLINE void slow_path_note_calls(struct slow_path_times* times, enum slow_path path,
                                      uint64_t begun, uint32_t calls) {
    uint64_t cycles = cycles_now() - begun;
    KEEL_PROBE(slow_path, path, cycles);
    unsigned bucket = bit_highest(cycles | 1);
    if (bucket >= SLOW_PATH_BUCKETS) bucket = SLOW_PATH_BUCKETS - 1;
    _Atomic(uint32_t)* count = &times->counts[path][bucket];
    atomic_set(count, atomic_get(count) + calls);
}
KEEL_INLINE void slow_path_note(struct slow_path_times* times, enum slow_path path,
                                uint64_t begun) {
    slow_path_note_calls(times, path, begun, 1);
}

// Of large blocks. `draws`: large allocations so far. Returns when the call has begun; 0: it is not
// timed.
KEEL_INLINE uint64_t slow_path_begin_large(uint64_t draws) {
    return draws % SLOW_PATH_LARGE_DRAWS == 0 ? cycles_now() : 0;
}
KEEL_INLINE void slow_path_note_large(struct slow_path_times* times, enum slow_path path,
                                      uint64_t begun) {
    if (begun != 0) slow_path_note_calls(times, path, begun, SLOW_PATH_LARGE_DRAWS);
}

#endif

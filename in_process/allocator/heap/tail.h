// How long the slow paths took, for each heap: the allocator reports its own tail.
//
// A duration falls into the bucket of its highest bit, in the unit of cycles_now. Only paths are timed
// that cost far more than the two readings; refilling a bin from its page is counted (HEAP_REFILL),
// not timed.
#ifndef KEEL_ALLOCATOR_HEAP_TAIL_H
#define KEEL_ALLOCATOR_HEAP_TAIL_H

#include "base/atomic.h"
#include "base/bits.h"
#include "base/cycles.h"

enum tail_path {
    TAIL_DRAIN,        // taking home what others freed
    TAIL_FRESH_PAGE,   // a page from memory that nobody used
    TAIL_PAGE_EMPTIED, // a page that became empty by a free
    TAIL_LARGE_MALLOC, // blocks above 64 KiB
    TAIL_LARGE_FREE,
    TAIL_REMOTE_SENT, // a free that sent blocks home
    TAIL_PATHS
};

#define TAIL_BUCKETS 32u // the last one: everything longer

struct tail {
    // Owner adds, anyone reads.
    _Atomic(uint32_t) counts[TAIL_PATHS][TAIL_BUCKETS];
};

KEEL_INLINE void tail_note(struct tail* tail, enum tail_path path, uint64_t begun) {
    uint64_t cycles = cycles_now() - begun;
    unsigned bucket = bit_highest(cycles | 1);
    if (bucket >= TAIL_BUCKETS) bucket = TAIL_BUCKETS - 1;
    _Atomic(uint32_t)* count = &tail->counts[path][bucket];
    atomic_set(count, atomic_get(count) + 1);
}

#endif

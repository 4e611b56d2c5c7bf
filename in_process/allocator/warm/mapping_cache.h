// Freed mappings, kept with their memory for a while: the next large block takes no page fault.
//
// A program that frees a block of many MiB often allocates a block of similar size soon after. If
// the memory were returned at once, the next block would take a page fault for every 4 KiB. So a
// freed mapping stays here for one purge delay (KEEL_PURGE_DELAY_MS). Neighbours are joined, and a
// mapping that is too large is cut, without a system call. A mapping that is too small grows by
// moving page tables.
//
//   place[0..511]:  start | bytes | time of the last put
//
// A mapping here is larger than a slice. So no two begin in one slice, and the metadata of its
// first slice is the mapping's own. A mapping is never moved over another one: the system may unmap
// the target before it refuses, and another thread may have mapped it since.
//
// Bounds: every call looks at the places that have a mapping, at most MAPPING_PLACES, and makes at
// most one system call for each mapping that it takes out. Lock-free: a place is taken by
// exchanging its start for 0.
#ifndef KEEL_ALLOCATOR_WARM_MAPPING_CACHE_H
#define KEEL_ALLOCATOR_WARM_MAPPING_CACHE_H

#include "base/atomic.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPING_PLACES 512u // a multiple of 64
// A remainder that is smaller stays with the block.
#define MAPPING_CUT_MIN ((size_t)256 << 10)

struct mapping {
    char* start; // NULL: none
    size_t bytes;
};

// A mapping of at least `bytes`, a multiple of the system's page size, at a multiple of
// `alignment`, a power of two. It may hold old content and be larger by less than MAPPING_CUT_MIN.
// `huge`: if it must grow, then by huge pages. NULL: none fits.
struct mapping mapping_cache_take(size_t bytes, size_t alignment, bool huge);

// Keeps the part of the mapping beyond `bytes`, if it is not too small. Returns the other part.
struct mapping mapping_cache_cut(struct mapping mapping, size_t bytes);

// Extends `mapping` to `bytes` by the cached mapping directly behind it. False: nothing changed.
bool mapping_cache_extend(struct mapping* mapping, size_t bytes);

// True if a mapping of at least `bytes` is here now.
bool mapping_cache_has(size_t bytes);

// Keeps the mapping, larger than a slice. Unmaps it if all places are in use. The caller has ended
// its page.
void mapping_cache_put(struct mapping mapping);

// Unmaps it. Where the system refuses that, keeps the range without its memory.
void mapping_cache_unmap(struct mapping mapping);

// Unmaps at most bytes_max of the mapping that has been here longest, and for a purge delay, unless
// the program has locked it. Returns the bytes that it tried.
size_t mapping_cache_age(uint64_t now_ms, size_t bytes_max);

// Unmaps everything that is here now. Waits for other threads that are returning a part of it.
void mapping_cache_clear(void);

// In the child of a fork, which has only the forking thread: what other threads were about to
// return is here again.
void mapping_cache_forget(void);

// Verifies the invariants; only when no other thread is active.
bool mapping_cache_check(void);

// Bytes of the mappings that jumbo blocks are in. Here, because the reserve reads them, which
// jumbo.c calls.
extern atomic_signed mapping_live_total;

KEEL_INLINE size_t jumbo_live_bytes(void) {
    int64_t bytes = atomic_get(&mapping_live_total);
    return bytes < 0 ? 0 : (size_t)bytes;
}

extern atomic_signed mapping_cache_total; // bytes kept

KEEL_INLINE size_t mapping_cache_bytes(void) {
    int64_t bytes = atomic_get(&mapping_cache_total);
    return bytes < 0 ? 0 : (size_t)bytes;
}

#endif

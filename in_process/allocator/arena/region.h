// Regions: ranges of memory that the program has handed over, or had reserved.
//
//   region->start                                                     + slices * 64 KiB
//   +--------+--------+--------+--------+--------+-- .. --+--------+--------+
//   | taken  |  free  | taken  | taken  |  free  |        |  free  |  free  |   one bit each: `free`,
//   +--------+--------+--------+--------+--------+-- .. --+--------+--------+   and `zero` where known
//
// They stand apart from the superblocks of the windows: their memory is never given back to the
// system, and an exclusive one belongs to the heaps that are bound to it. Pages and large blocks in
// them are as any: their metadata is that of the window in which they lie.
//
// A region has a lock, held for one search of its bits. Runs of a region that is not exclusive are
// tried for first by everybody; that search is cut short (REGION_WORDS_SHARED), and gives way when
// somebody else is at it, so that it stays in the bounds of a slow path.
#ifndef KEEL_ALLOCATOR_ARENA_REGION_H
#define KEEL_ALLOCATOR_ARENA_REGION_H

#include "allocator/arena/run.h"
#include "allocator/arena/window.h"
#include "base/atomic.h"
#include "os/lock.h"

#define REGIONS_MAX 64u
#define REGION_WORDS_SHARED                                                                        \
    64u // words of bits that a search for everybody looks at besides the run
#define REGION_ANY_NODE (-1)

struct region {
    struct os_lock lock; // the bits, first_free, heaps
    atomic_word start;   // 0: no region. A multiple of 64 KiB
    atomic_word slices;
    atomic_bits live;  // slices taken
    uint64_t* free;    // bit i: slice i is nobody's
    uint64_t* zero;    // bit i: all of slice i is zero
    size_t first_free; // no slice below is free
    atomic_word heaps; // that are bound to it
    void* mapping;     // not NULL: given back to the system with the region
    size_t mapping_bytes;
    int node; // of the machine's memory, or REGION_ANY_NODE
    bool exclusive;
    bool populated; // using it takes no page fault
};

struct region_memory {
    void* start;
    size_t bytes;
    int node;
    bool zero;
    bool populated;
    bool exclusive;
    bool mapped; // by Keel: to be given back to the system with the region
};

enum region_verdict {
    REGION_OK,
    REGION_NOT_USABLE, // less than one slice, beyond the addresses that there are, or Keel's already
    REGION_NO_MEMORY,  // for the metadata
    REGION_NO_PLACE,   // there are REGIONS_MAX
};

// Linear in its slices. With `mapped` the memory stays the caller's unless the verdict is REGION_OK.
enum region_verdict region_add(const struct region_memory* memory, struct region** region);

// False: something of it is in use, or a heap is bound to it.
bool region_remove(struct region* region);

// A heap is bound to it, and no more. False: the region has been removed.
bool region_bind(struct region* region);
void region_unbind(struct region* region);

// A run for a heap that is bound to it. Start NULL: there is none. Linear in the region's slices.
struct run region_take(struct region* region, size_t slices, size_t alignment_slices);

extern atomic_state regions_in_use; // places that may hold a region

// A run from any region that is not exclusive: start NULL if there is none at hand. Bounded.
struct run region_take_any(size_t slices, size_t alignment_slices);
KEEL_INLINE struct run region_take_shared(size_t slices, size_t alignment_slices) {
    if (KEEL_LIKELY(atomic_get(&regions_in_use) == 0)) return (struct run){NULL, false, false};
    return region_take_any(slices, alignment_slices);
}

// The region that the address is in, or NULL.
struct region* region_find(const void* address);
KEEL_INLINE struct region* region_of(const void* address) {
    return KEEL_LIKELY(atomic_get(&regions_in_use) == 0) ? NULL : region_find(address);
}

// True if what is around `address` is memory that Keel gives blocks from.
KEEL_INLINE bool arena_owns(const void* address) {
    return window_owns(address) || region_of(address) != NULL;
}

void region_give(struct region* region, char* start, size_t slices);

// Slices taken from all of them. Momentary.
size_t region_live_slices(void);

// Nodes of memory that matter: what the option says, or else the machine.
unsigned region_nodes(void);

void region_before_fork(void);
void region_after_fork(void);

#endif

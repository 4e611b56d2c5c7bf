// Arenas: ranges of memory that the program has passed to Keel, or had reserved.
//
//   arena->start                                                     + slices * 64 KiB
//   +--------+--------+--------+--------+--------+-- .. --+--------+--------+
//   | taken  |  free  | taken  | taken  |  free  |        |  free  |  free  |   a bit each: `free`,
//   +--------+--------+--------+--------+--------+-- .. --+--------+--------+   and `zero` if known
//
// They are separate from the superblocks of the windows: their memory is never returned to the
// system, and an exclusive arena belongs to the heaps that are bound to it. Pages and large blocks
// in them are like any other: their metadata is that of the window that contains them.
//
// An arena has a lock, held for one search of its bits. Every thread tries arenas that are not
// exclusive first. That search is bounded (ARENA_SHARED_WORDS_MAX) and does not wait for the lock,
// so that it stays within the bounds of a slow path.
#ifndef KEEL_ALLOCATOR_SPACE_ARENA_H
#define KEEL_ALLOCATOR_SPACE_ARENA_H

#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "base/atomic.h"
#include "os/lock.h"

#define ARENAS_MAX 64u
// Words of bits that a search for any thread looks at, besides those of the run.
#define ARENA_SHARED_WORDS_MAX 64u
#define ARENA_ANY_NODE (-1)

struct arena {
    struct os_lock lock; // the bits, first_free, heaps
    // Where it is: number of its first slice << 32 | slices; 0: no arena. One word, because any
    // thread may look for an address in it while it is removed and another one takes its place.
    atomic_bits range;
    atomic_bits live;  // slices taken
    uint64_t* free;    // bit i: slice i is free
    uint64_t* zero;    // bit i: all of slice i is zero
    size_t first_free; // no slice below it is free
    atomic_word heaps; // number of heaps bound to it
    void* mapping;     // not NULL: unmapped when the arena is removed
    size_t mapping_bytes;
    int node; // of the machine's memory, or ARENA_ANY_NODE
    bool exclusive;
    bool populated; // using it takes no page fault
};

struct arena_range {
    uintptr_t start; // 0: none
    size_t slices;
};
KEEL_INLINE struct arena_range arena_range(const struct arena* arena) {
    uint64_t range = atomic_get_acquire(&arena->range);
    return (struct arena_range){(uintptr_t)(range >> 32) * SLICE_BYTES, (uint32_t)range};
}
KEEL_INLINE bool arena_exists(const struct arena* arena) {
    return atomic_get_acquire(&arena->range) != 0;
}

struct arena_memory {
    void* start;
    size_t bytes;
    int node;
    bool zero;
    bool populated;
    bool exclusive;
    bool closed; // not accessible yet
    bool mapped; // by Keel: unmapped when the arena is removed
};

enum arena_result {
    ARENA_OK,
    ARENA_NOT_USABLE, // less than a slice, beyond the address space, or Keel's already
    ARENA_NO_MEMORY,  // for the metadata, or the system does not make it accessible
    ARENA_NO_ENTRY,   // there are ARENAS_MAX arenas already
};

// Linear in its slices. Unless the result is ARENA_OK the memory stays the caller's, also if
// `mapped`.
enum arena_result arena_add(const struct arena_memory* memory, struct arena** arena);

// False: a slice of it is in use, or a heap is bound to it.
bool arena_remove(struct arena* arena);

// Bind a heap, and unbind it. False: the arena has been removed.
bool arena_bind(struct arena* arena);
void arena_unbind(struct arena* arena);

// A run for a heap that is bound to it. Start NULL: none. Linear in the arena's slices.
struct run arena_take(struct arena* arena, size_t slices, size_t alignment_slices);

extern atomic_state arenas_in_use; // entries of the table that may hold an arena

// A run from any arena that is not exclusive, for partition 0. Start NULL: none was found within
// the bound.
struct run arena_take_any(size_t slices, size_t alignment_slices);
KEEL_INLINE struct run arena_take_shared(size_t slices, size_t alignment_slices) {
    if (KEEL_LIKELY(atomic_get(&arenas_in_use) == 0) || partition_now() != 0)
        return (struct run){NULL, false, false, 0};
    return arena_take_any(slices, alignment_slices);
}

// The arena that contains the address, or NULL.
struct arena* arena_find(const void* address);
KEEL_INLINE struct arena* arena_of(const void* address) {
    return KEEL_LIKELY(atomic_get(&arenas_in_use) == 0) ? NULL : arena_find(address);
}

// True if the address is in memory that Keel allocates blocks from.
KEEL_INLINE bool slices_contain(const void* address) {
    if (!address_is_possible(address)) return false;
    address = address_untagged(address);
    return window_owns(address) || arena_of(address) != NULL;
}

void arena_release(struct arena* arena, char* start, size_t slices);

// Slices taken from all arenas. Approximate while other threads run.
size_t arena_live_slices(void);

// The number of NUMA nodes to distinguish: the option, or else the machine's.
unsigned arena_numa_nodes(void);

// Verifies the invariants of all arenas; only when no other thread is active.
bool arena_check(void);

void arena_before_fork(void);
void arena_after_fork(void);

#endif

// Regions: ranges of memory that the program has handed over, or had reserved.
//
//   arena->start                                                     + slices * 64 KiB
//   +--------+--------+--------+--------+--------+-- .. --+--------+--------+
//   | taken  |  free  | taken  | taken  |  free  |        |  free  |  free  |   one bit each: `free`,
//   +--------+--------+--------+--------+--------+-- .. --+--------+--------+   and `zero` where known
//
// They stand apart from the superblocks of the windows: their memory is never given back to the
// system, and an exclusive one belongs to the heaps that are bound to it. Pages and large blocks in
// them are as any: their metadata is that of the window in which they lie.
//
// A region has a lock, held for one search of its bits. Runs of a region that is not exclusive are
// tried for first by everybody; that search is cut short (ARENA_SHARED_WORDS_MAX), and gives way when
// somebody else is at it, so that it stays in the bounds of a slow path.
#ifndef KEEL_ALLOCATOR_SLICES_ARENA_H
#define KEEL_ALLOCATOR_SLICES_ARENA_H

#include "allocator/slices/run.h"
#include "allocator/slices/window.h"
#include "base/atomic.h"
#include "os/lock.h"

#define ARENAS_MAX 64u
#define ARENA_SHARED_WORDS_MAX                                                                     \
    64u // words of bits that a search for everybody looks at besides the run
#define ARENA_ANY_NODE (-1)

struct arena {
    struct os_lock lock; // the bits, first_free, heaps
    atomic_word start;   // 0: no arena. A multiple of 64 KiB
    atomic_word slices;
    atomic_bits live;  // slices taken
    uint64_t* free;    // bit i: slice i is nobody's
    uint64_t* zero;    // bit i: all of slice i is zero
    size_t first_free; // no slice below is free
    atomic_word heaps; // that are bound to it
    void* mapping;     // not NULL: given back to the system with the arena
    size_t mapping_bytes;
    int node; // of the machine's memory, or ARENA_ANY_NODE
    bool exclusive;
    bool populated; // using it takes no page fault
};

struct arena_memory {
    void* start;
    size_t bytes;
    int node;
    bool zero;
    bool populated;
    bool exclusive;
    bool mapped; // by Keel: to be given back to the system with the arena
};

enum arena_result {
    ARENA_OK,
    ARENA_NOT_USABLE, // less than one slice, beyond the addresses that there are, or Keel's already
    ARENA_NO_MEMORY,  // for the metadata
    ARENA_NO_ENTRY,   // there are ARENAS_MAX
};

// Linear in its slices. With `mapped` the memory stays the caller's unless the verdict is ARENA_OK.
enum arena_result arena_add(const struct arena_memory* memory, struct arena** arena);

// False: something of it is in use, or a heap is bound to it.
bool arena_remove(struct arena* arena);

// A heap is bound to it, and no more. False: the region has been removed.
bool arena_bind(struct arena* arena);
void arena_unbind(struct arena* arena);

// A run for a heap that is bound to it. Start NULL: there is none. Linear in the region's slices.
struct run arena_take(struct arena* arena, size_t slices, size_t alignment_slices);

extern atomic_state arenas_in_use; // places that may hold an arena

// A run from any region that is not exclusive: start NULL if there is none at hand. Bounded.
struct run arena_take_any(size_t slices, size_t alignment_slices);
KEEL_INLINE struct run arena_take_shared(size_t slices, size_t alignment_slices) {
    if (KEEL_LIKELY(atomic_get(&arenas_in_use) == 0)) return (struct run){NULL, false, false};
    return arena_take_any(slices, alignment_slices);
}

// The region that the address is in, or NULL.
struct arena* arena_find(const void* address);
KEEL_INLINE struct arena* arena_of(const void* address) {
    return KEEL_LIKELY(atomic_get(&arenas_in_use) == 0) ? NULL : arena_find(address);
}

// True if what is around `address` is memory that Keel gives blocks from.
KEEL_INLINE bool slices_contain(const void* address) {
    return window_owns(address) || arena_of(address) != NULL;
}

void arena_release(struct arena* arena, char* start, size_t slices);

// Slices taken from all of them. Momentary.
size_t arena_live_slices(void);

// Nodes of memory that matter: what the option says, or else the machine.
unsigned arena_numa_nodes(void);

void arena_before_fork(void);
void arena_after_fork(void);

#endif

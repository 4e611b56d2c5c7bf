// Windows: the 4 GiB-aligned ranges of the address space in which Keel has memory.
//
// Normally a window is reserved whole and then opened piece by piece: its lower half by threads
// that find no free slice, its upper half, the huge zone, by the keeper. Where the system refuses 4
// GiB (a limit on address space, strict overcommit), smaller ranges are reserved, and only some
// superblocks of a window are Keel's. A window is also made for every range with a jumbo mapping. A
// window is never removed: its metadata costs address space only, since metadata pages that
// describe nothing are never touched.
//
//   metadata mapping of a window
//   +------------------------------+-------------------------------------------+
//   | struct window (64 KiB)       | struct page [65536], page_use [65536]     |
//   +------------------------------+-------------------------------------------+
#ifndef KEEL_ALLOCATOR_SLICES_WINDOW_H
#define KEEL_ALLOCATOR_SLICES_WINDOW_H

#include "allocator/slices/page_map.h"
#include "allocator/slices/superblock_set.h"
#include <stdbool.h>

#define RUN_BUCKETS 7        // longest free run of 1, 2, 4, .. 64 slices
#define OPEN_SUPERBLOCKS 64u // opened at once: one word of each set, 256 MiB
// The huge zone: the upper half of a window that is reserved whole. Its memory comes in units of
// 2 MiB. A unit is opened by populating it as one huge page and cannot be used before that, so that
// no thread of the program ever takes the fault that zeroes 2 MiB.
#define HUGE_ZONE_FIRST (WINDOW_SUPERBLOCKS / 2)
#define HUGE_SLICES 32u
#define WINDOWS_MAX 4096u // with memory of ours: 16 TiB

// 64 slices. The thread that has cleared a bit of `free` owns the slice and may change its other
// bits.
struct superblock {
    atomic_bits free;    // bit i: slice i is free
    atomic_bits touched; // bit i: slice i may occupy memory
    atomic_bits zero;    // bit i, where free and touched: its memory is all zero
    atomic_bits open;    // bit i: slice i may be used: it is free or given out
};
_Static_assert(sizeof(struct superblock) == 32, "two to a cache line");

struct window {
    struct superblock superblocks[WINDOW_SUPERBLOCKS];
    struct superblock_set
        by_run[RUN_BUCKETS];      // [b]: superblocks that may have a free run of >= 2^b slices
    struct superblock_set dirty;  // superblocks that may have slices free and touched
    struct superblock_set closed; // superblocks of the huge zone that may have a unit not open
    char* base;                   // 4 GiB-aligned
    atomic_word whole;            // 1: all of it is reserved by Keel
};
#define WINDOW_HEADER_BYTES ((size_t)65536)
_Static_assert(sizeof(struct window) <= WINDOW_HEADER_BYTES, "header fits");

struct windows {
    atomic_word count;              // entries in use that a search must look at
    atomic_word entry[WINDOWS_MAX]; // struct window*, each once; filled from the first on, then 0
};
extern struct windows windows;

KEEL_INLINE struct window* window_at(size_t index) {
    return (struct window*)atomic_get_acquire(&windows.entry[index]);
}

// The window of `address`, made if there is none. NULL: no memory for its metadata. Lock-free.
struct window* window_for(const void* address);

// The window of `address` if there is one, else NULL.
struct window* window_find(const void* address);

// True if the superblock of `address` is reserved by Keel.
bool window_owns(const void* address);

// Opens at least `superblocks` (1..5) more adjacent superblocks; reserves address space for them if
// there is none left. False: the system refuses. O(1): a fixed number of superblocks is opened.
bool window_grow(unsigned superblocks);

#endif

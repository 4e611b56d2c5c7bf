// Windows: the 4 GiB-aligned ranges of the address space in which Keel has memory.
//
// Keel reserves no address space. It chooses a window where nothing is mapped, and maps its memory
// piece by piece, each at an address where nothing is mapped. A program that
// locks its memory, or has a limit on its address space, thus pays for what it uses only. Threads
// that find no free slice map the lower half of a window from its start on; the keeper maps the
// upper half, the huge zone, in units of 2 MiB. If other code has mapped a piece, Keel leaves it
// out. Where the system permits no such place, small ranges are mapped anywhere, and only some
// superblocks of a window are Keel's. A window is also made for every range with a mapping of a
// large block. A window is never removed.
//
//   metadata of a window, one mapping
//   +------------------------+----------------------+----------------------+---------------------+
//   | struct window (64 KiB) | struct page [65536]  | page_use [65536]     | page_remote [65536] |
//   +------------------------+----------------------+----------------------+---------------------+
//                            | part 0 | part 1 | .. | part 0 | part 1 | .. | part 0 | part 1 | ..|
//
// A part describes 256 MiB. It can be read from the start, and written once Keel has memory there:
// memory that cannot be written is not charged, and not populated when a program locks its memory.
#ifndef KEEL_ALLOCATOR_SPACE_WINDOW_H
#define KEEL_ALLOCATOR_SPACE_WINDOW_H

#include "allocator/space/index_set.h"
#include "allocator/space/page_map.h"
#include "allocator/space/partition.h"
#include <stdbool.h>

#define RUN_BUCKETS 7        // longest free run of 1, 2, 4, .. 64 slices
#define PIECE_SUPERBLOCKS 8u // mapped at once, at most: 32 MiB, unless a run needs more
#define WINDOW_PART_BYTES ((size_t)256 << 20)
#define WINDOW_PARTS ((unsigned)(WINDOW_BYTES / WINDOW_PART_BYTES))
// The huge zone: the upper half of a window that Keel has chosen. Its memory comes in units of
// 2 MiB. A unit is opened by populating it as one huge page and cannot be used before that, so that
// no thread of the program ever takes the fault that zeroes 2 MiB.
#define HUGE_ZONE_FIRST (WINDOW_SUPERBLOCKS / 2)
#define HUGE_SLICES 32u
#define HUGE_UNITS (WINDOW_SLICES / 2 / HUGE_SLICES)
#define GROUP_UNITS 8u // mapped at once: 16 MiB
#define HUGE_GROUPS (HUGE_UNITS / GROUP_UNITS)
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

// The sets of superblocks of a window.
enum {
    SET_ROOM,                            // that may have a slice with room for a packed block
    SET_DIRTY,                           // that may have slices free and touched
    SET_RUNS,                            // + b < RUN_BUCKETS: that may have a free run of >= 2^b
    SET_CLOSED = SET_RUNS + RUN_BUCKETS, // of the huge zone, that may have a unit not open
    WINDOW_SETS
};

// A set of superblocks: the first words of a struct index_set. The last one is always 0, so that a
// search may begin behind the last superblock.
#define SUPERBLOCK_SET_WORDS (2 + WINDOW_SUPERBLOCKS / 64)

struct window {
    char* base;            // 4 GiB-aligned
    atomic_word number;    // its place in the list of windows
    atomic_word chosen;    // 1: by Keel, so that it has a huge zone; only in partition 0
    atomic_word partition; // all of its slices are of this partition, plus 1; 0: not listed yet
    atomic_word described; // bit i: the metadata of part i can be written
    KEEL_ALIGNED(KEEL_CACHE_LINE) atomic_bits sets[WINDOW_SETS][SUPERBLOCK_SET_WORDS];
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct superblock superblocks[WINDOW_SUPERBLOCKS];
    // Secure flavour: of each part, the rows for the queues of its pages (queue_rows.h).
    atomic_word queues[WINDOW_PARTS];
    // By superblock, a bit for each slice: the slice may have room behind a packed block's end, or
    // before a packed block's start (packed.h).
    atomic_bits room_behind[WINDOW_SUPERBLOCKS];
    atomic_bits room_before[WINDOW_SUPERBLOCKS];
    // A bit for each unit of the huge zone: whether it is mapped; whether other code's memory is in
    // it, so that it can never be opened; whether the system has been asked for a huge page there.
    atomic_bits units_mapped[HUGE_UNITS / 64];
    atomic_bits units_taken[HUGE_UNITS / 64];
    atomic_bits units_preferred[HUGE_UNITS / 64];
    // A bit for each group of units: whether a thread has begun to map it; whether that failed, so
    // that its units are mapped one by one.
    atomic_bits groups_begun[HUGE_GROUPS / 64];
    atomic_bits groups_divided[HUGE_GROUPS / 64];
};
#define WINDOW_HEADER_BYTES ((size_t)65536)
_Static_assert(sizeof(struct window) <= WINDOW_HEADER_BYTES, "header fits");

KEEL_INLINE struct index_set* window_set(struct window* window, unsigned set) {
    KEEL_ASSERT(set < WINDOW_SETS);
    return (struct index_set*)(void*)window->sets[set];
}

struct windows {
    // [p][s]: windows of partition p whose sets[s] may have a member
    struct index_set with[PARTITION_COUNT][WINDOW_SETS];
    atomic_word count;              // entries in use
    atomic_word entry[WINDOWS_MAX]; // struct window*, each once; filled from the first on, then 0
};
_Static_assert(WINDOWS_MAX <= INDEX_SET_MAX, "a set of windows has room for all");
extern struct windows windows;

KEEL_INLINE struct window* window_at(size_t index) {
    KEEL_ASSERT(index < WINDOWS_MAX);
    return (struct window*)atomic_get_acquire(&windows.entry[index]);
}

// The partition of a listed window.
KEEL_INLINE unsigned window_partition(struct window* window) {
    KEEL_ASSERT(!KEEL_SECURE || atomic_get(&window->partition) - 1 < PARTITION_COUNT);
    return KEEL_SECURE ? (unsigned)atomic_get(&window->partition) - 1 : 0;
}

// The windows among which this one is entered if its set has a member.
KEEL_INLINE struct index_set* window_with(struct window* window, unsigned set) {
    KEEL_ASSERT(set < WINDOW_SETS && atomic_get(&window->number) < WINDOWS_MAX);
    return &windows.with[window_partition(window)][set];
}

// Adds a superblock to a set of the window, or removes it, and the window to the windows with
// members.
KEEL_INLINE void window_set_add(struct window* window, unsigned set, unsigned index) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS);
    if (index_set_add(window_set(window, set), index))
        (void)index_set_add(window_with(window, set), (unsigned)atomic_get(&window->number));
}
KEEL_INLINE void window_set_remove(struct window* window, unsigned set, unsigned index) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS);
    if (index_set_remove(window_set(window, set), index))
        (void)index_set_add(window_with(window, set), (unsigned)atomic_get(&window->number));
}
void window_set_add_range(struct window* window, unsigned set, unsigned index, unsigned count);

// Removes a window whose set was found empty from the windows with members.
void window_forget(struct window* window, unsigned set);

// The next window of the partition from *number on whose set may have a member, and its number;
// NULL: none. A search that steps over windows visits only those, so that its length does not grow
// with their number.
static inline struct window* window_next(unsigned partition, unsigned set, unsigned* number) {
    KEEL_ASSERT(partition < PARTITION_COUNT && set < WINDOW_SETS);
    for (;; ++*number) {
        *number = index_set_next(&windows.with[partition][set], *number);
        if (*number >= WINDOWS_MAX) return NULL;
        struct window* window = window_at(*number);
        if (KEEL_LIKELY(atomic_get_ordered(&window_set(window, set)->summary) != 0)) return window;
        window_forget(window, set);
    }
}

// Makes the dummy of the page map read-only. It is always zero, so it needs no memory of its own:
// if a program locks its memory, the system does not populate it.
void windows_prepare(void);

// The window of `address`, made if there is none; the metadata of the part that contains the
// address can be written. NULL: no memory for it. Lock-free. At most 5 system calls; in the secure
// flavour 5 more.
struct window* window_for(const void* address);

// True: there is all that window_for would make.
bool window_describes(const void* address);

// Secure flavour: the own row of a page that begins at this address (queue_rows.h).
uint16_t* window_own_row(const void* page);

// The window of `address` if there is one, else NULL.
struct window* window_find(const void* address);

// True if Keel gives out slices at this address, or has given it out.
bool window_owns(const void* address);

// True if the slice at this address is free: nothing of the program is there. Never where a
// live block is, whatever other threads do.
bool window_is_free(const void* address);

// True if the process has a limit on its address space. Reads it: one system call.
bool window_space_is_limited(void);

// 1: address space should be used tightly. The process has a limit on it, and Keel has mapped more
// than 1/256 of the limit. It changes when address space is mapped.
extern atomic_state window_space_scarce;
KEEL_INLINE bool space_is_scarce(void) {
    return atomic_get(&window_space_scarce) != 0;
}

#define WINDOW_GROW_MAX 32u // superblocks
// Makes at least `superblocks` (1..WINDOW_GROW_MAX) more adjacent superblocks available, to the
// thread's partition. False: the system refuses. A fixed number of system calls; where other code
// has mapped pieces of the window, a few for each of at most 8 pieces.
bool window_grow(unsigned superblocks);

// The same for the superblocks from `start` on, if the next piece begins there. False: it does not,
// or the system refuses.
bool window_grow_at(const char* start, unsigned superblocks);

#endif

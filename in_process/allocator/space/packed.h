// Packed blocks: large blocks of less than 4 MiB that share their first and last slice with
// neighbours, for processes whose address space is scarce (window.h).
//
// A run of whole slices has up to 65,535 unused bytes at its end: a block of 70,000 bytes takes
// 131,072. Untouched, they occupy no memory, but under a limit on the address space (RLIMIT_AS)
// they count. So there a block begins where the block before it ends:
//
//   slice    |   i        |   i + 1    |   i + 2    |   i + 3    |   i + 4    |
//            |aaaaaaaaaaaa|aaabbbbbbbbb|bbbbbb......|free        |......cccccc|cccc
//   shared   |    0       | a's end:   | b's end:   |    0       | c's start: |
//            |            | no room    | room behind|            | room before|
//
// A packed block is larger than a slice. So at most one block begins in each slice, which the
// slice's metadata describes (like that of a mapping, jumbo.h), and at most one ends there: a slice
// has at most two users. Its word `shared` says where the one ends and the other begins. The room
// in a slice with one user is taken together with the free slices next to it, and the slice is
// released when its last user leaves. Whole slices belong to the superblock as those of any run.
//
// Bound: a search looks at no more than PACKED_WINDOWS windows, PACKED_PROBES superblocks in all,
// and PACKED_ROOMS slices with room behind and as many with room before in each. It then looks
// where room was made last. Lock-free.
#ifndef KEEL_ALLOCATOR_SPACE_PACKED_H
#define KEEL_ALLOCATOR_SPACE_PACKED_H

#include "allocator/space/run.h"
#include "allocator/space/window.h"

#define PACKED_UNIT ((size_t)64) // start and size of a packed block are multiples
#define PACKED_WINDOWS 4u
#define PACKED_PROBES 8u
#define PACKED_ROOMS 8u

// 64 KiB < bytes <= 4 MiB, a multiple of PACKED_UNIT. Start NULL: no memory. `warm` is false.
struct run packed_allocate(size_t bytes);

void packed_release(char* start, size_t bytes);

// Verifies that the room of this slice is found; only when no other thread is active.
bool packed_check(struct window* window, size_t slice);

#endif

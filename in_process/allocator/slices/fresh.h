// Fresh mappings: large blocks on memory that nothing has touched yet. The keeper looks which of
// them the program fills from the start on, and asks the system for huge pages there.
//
// The first touch of 2 MiB takes 512 page faults of 4 KiB, together 0.6 to 1 ms, or one of 2 MiB,
// 0.2 ms. But a block that is touched here and there would occupy up to 512 times the memory with
// huge pages. So a block gets them when this much of it is touched from its start on, and of some
// pages further back at most one:
//
//   start   FRESH_FRONT or 1/64 of the block                                          end
//   |=======================|........:........:........:........:........:........:.....|
//     all touched                    looked at: FRESH_SAMPLES pages
//
// After FRESH_STREAK such blocks in succession, or one that was filled to its end when the program
// freed it or allocated the next one, the next blocks get huge pages immediately. The keeper
// examines these blocks too. If the program touches only scattered parts of one, or does not fill
// its front within FRESH_LOOK_MS, the count begins again at 0.
//
// While nothing is known, blocks get huge pages within a budget (reserve_affords_unknown): in a
// short program, most page faults are those of its first blocks. When one of them, or another one,
// has been seen not to be filled, no more get them in this way until one is filled.
//
// The first touch of a block below FRESH_PROVEN_BYTES can make all of it resident if it has huge
// pages, so that nothing can be learnt from it. Of these blocks, every FRESH_PROBE_DRAWS-th is a
// probe: it gets small pages, and until it has been seen that it was filled, no other one gets
// huge pages. A program that stops filling its blocks has huge pages in at most FRESH_PROBE_DRAWS
// of them. A larger block is a probe if only blocks with huge pages were seen to be filled, because
// a few touches make all of such a block resident. A block on slices is looked at to begin with,
// but gets no huge pages.
//
// Bounds: an allocation looks at FRESH_PLACES words. So does a free of FRESH_BYTES_MIN or more.
// While a keeper looks and no huge pages are expected, either makes at most FRESH_SAMPLES system
// calls, and so does a realloc by half the size or more. The keeper makes at most FRESH_SAMPLES + 2
// for each place in a tick. It may look at a range that has been unmapped, or mapped by other code,
// meanwhile: all it does is to ask for residence, and to request huge pages.
#ifndef KEEL_ALLOCATOR_SLICES_FRESH_H
#define KEEL_ALLOCATOR_SLICES_FRESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRESH_PLACES 16u
#define FRESH_BYTES_MIN ((size_t)1 << 20) // of a block
#define FRESH_PROVEN_BYTES ((size_t)4 << 20)
#define FRESH_UNKNOWN_BYTES_MAX ((size_t)32 << 20)
#define FRESH_PROBE_DRAWS 8u
#define FRESH_FRONT ((size_t)256 << 10)
#define FRESH_SAMPLES 4u
#define FRESH_STREAK 2u
#define FRESH_LOOK_MS 200u // a place is given up after this time

enum fresh_memory {
    FRESH_MAPPING, // gets huge pages if it is found to be filled
    FRESH_HUGE,    // a mapping that has them
    FRESH_UNKNOWN, // a mapping that has them, although it is not known whether it will be filled
    FRESH_PROBE,   // a mapping that could have had them
    FRESH_SLICES   // never gets them, because it has neighbours
};

// True: the next block of this size is expected to be filled. False while no keeper looks.
bool fresh_is_expected(size_t bytes);

// True: blocks were seen to be filled, and none since that was not.
bool fresh_is_seen(void);

// True: neither that nor the opposite was seen.
bool fresh_is_unknown(void);

// True: nothing is known, and the budget has room for a mapping of this size.
bool fresh_affords_unknown(size_t bytes);

// Looks at the block that began last, unless that would change nothing: most programs fill a block
// before they allocate the next one. For allocations, before fresh_is_expected; at most
// FRESH_SAMPLES system calls.
void fresh_learn(void);

// Maps memory for a block. If the block is expected to be filled, or if it is unknown and there is
// room: whole huge pages, of which *mapped bytes are mapped. NULL: no memory.
char* fresh_map(size_t bytes, size_t alignment, size_t* mapped, enum fresh_memory* memory);

// A block has begun on fresh memory: it is looked at if there is a place, by a keeper that runs or
// starts.
void fresh_begin(char* start, size_t bytes, enum fresh_memory memory);

// The block is about to end, to move, or to become smaller than FRESH_BYTES_MIN.
void fresh_end(const char* start);

// A block that is about to grow. True: it is filled, as far as its residence shows, and grows by
// half its size or more. Then the memory that it gets is likely to be filled, too. This teaches
// nothing about other blocks: a block on warm memory is resident whatever the program does. At most
// FRESH_SAMPLES system calls.
bool fresh_doubles(const char* start, size_t bytes, size_t bytes_after);

// True if a block has begun since the keeper last looked.
bool fresh_waits(void);

// A keeper has been started, and will look.
void fresh_expect_looks(void);

// No keeper looks any more: no block gets huge pages.
void fresh_forget(void);

// Looks at all places. True: there are some. For the keeper.
bool fresh_look(uint64_t now_ms);

#endif

// How far the program fills its large blocks: one estimate for each range of sizes.
//
// Memory that is resident at once (warm slices, a unit of 2 MiB, huge pages) spares a block that
// the program fills most of its page faults. A block that it touches here and there would occupy up
// to 512 times as much as it needs. So a range gets such memory while its estimate is at least
// FILL_ENOUGH, and cold memory before anything is known.
//
//   range     0            1          2           3        4         ...
//   blocks    in wide      up to      up to       up to    up to     four times as much
//             pages        256 KiB    1 MiB       4 MiB    16 MiB    as the range before
//
// The estimate is a mean over probes: blocks on cold memory, in which each touched system page
// shows. While nothing else is known every block is one. Later it is one of FILL_DRAWS of the
// blocks that need more memory: a probe displaces no warm memory. Each filled probe doubles that,
// FILL_DOUBLINGS times at most, and one that is not filled ends this. A probe is looked at
// FILL_SAMPLES random places, so that no stride of the program's touches meets them; when 1, 2, 4,
// 8 and 16 more blocks of its range have begun, because a program may allocate many blocks before
// it fills them; and at its end. It is judged when all places are resident, at the last of these
// looks, or at its end.
//
// Bound: an allocation, or the end of a block, looks at FILL_PLACES blocks, with FILL_SAMPLES calls
// to the system each. A block may have ended meanwhile: only residence is asked for.
//
// In a process that may be behind a filter of system calls (os/confined.h), no block is looked at.
// There, blocks of up to FILL_ASSUMED_BYTES count as filled and larger ones as not.
//
// What defeats it: blocks of one range of which some are filled and some are not; a program that
// stops filling its blocks, for the next 16 to 256 that need more memory (12 sparse blocks of 64
// MiB after a filled one occupy 772 MiB); blocks that are filled long after they were allocated
// count as empty.
#ifndef KEEL_ALLOCATOR_WARM_FILL_H
#define KEEL_ALLOCATOR_WARM_FILL_H

#include <stdbool.h>
#include <stddef.h>

#define FILL_RANGES 25u // all sizes
#define FILL_PLACES 2u  // probes of one range at the same time
#define FILL_SAMPLES 4u
#define FILL_ASSUMED_BYTES ((size_t)1 << 20) // without looks
#define FILL_DRAWS_LAST 16u                  // blocks of the range, until a probe is judged

// The next block is expected to be filled. Looks at the probes of its range. Any thread.
bool fill_expects(size_t bytes);

// The same without a look.
bool fill_is_expected(size_t bytes);

// True: this block, which is expected to be filled, should get cold memory as a probe.
bool fill_is_probe(size_t bytes);

// A block of `bytes` has begun on cold memory of `span` bytes, or all blocks of a page there have
// been given out. Watches it, if there is a place.
void fill_watch(char* start, size_t span, size_t bytes);

// It is about to end, to move, or to change its size. O(1) unless it is watched.
void fill_end(const char* start, size_t bytes);

// True: the block is filled, as far as FILL_SAMPLES random places show.
bool fill_is_seen(const char* start, size_t bytes);

// Forgets all. For tests.
void fill_forget(void);

// Verifies the probes and estimates; only when no other thread is active.
bool fill_check(void);

#endif

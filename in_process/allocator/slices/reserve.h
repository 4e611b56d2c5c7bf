// The warm reserve: slices that are free and occupy memory (dirty), its target and its surplus.
// This module also has the limit on the memory that Keel holds (kl_limit).
//
//   dirty count
//     ^          surplus: more than a whole period needed         -> discarded, a quantum at a time
//     |  ------- maximum need of a period
//     |          slices that slow paths take without a page fault
//     |  ------- target
//     |          less than the target                             -> the keeper populates cold ones
//     +-->
//
// The surplus: slices that were free and dirty during a whole period (OPTION_RESET_DELAY) were not
// needed in it. Their number is the *minimum* of the dirty count over the period. The minimum less
// the target is the surplus, and is discarded in the next period. In a program that frees and
// allocates the same 10 MiB in every frame, the minimum is near 0, so nothing is discarded. After a
// burst the minimum is the size of the burst. (The idea is that of working-set estimation;
// jemalloc's decay curve has the same effect.) Freed mappings of large blocks stay warm for one
// period too (mapping_cache.h). The sum of live and warm memory has a limit: 1.5 times the highest
// live memory of this period and the previous one, plus 32 MiB and the target. Above it, without a
// keeper, each release discards a quantum immediately. The release of a block that the latency
// contract does not cover discards at most as much as it released.
//
// Bound: one call of reserve_step makes at most one madvise, of at most PURGE_QUANTUM_SLICES, and
// at most one munmap, of at most 1 MiB of a freed mapping. If a keeper runs, it does nothing.
#ifndef KEEL_ALLOCATOR_SLICES_RESERVE_H
#define KEEL_ALLOCATOR_SLICES_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PURGE_QUANTUM_SLICES 1u

// Called by slow paths that took slices: records the minimum of the dirty count, and returns warm
// memory if the control group has no room for it.
void reserve_note(void);

// Called by slow paths that released slices: discards one quantum if a surplus is due and no
// keeper runs. False: there was nothing to do.
bool reserve_step(void);

// The control group's limit leaves room for this many slices, live and warm together. While there
// are more, and more than CAP_WARM_SLICES are warm, slow paths that take slices return warm memory,
// with at most CAP_CALLS calls to the system each, even if a keeper runs; and freed large blocks do
// not stay warm. SIZE_MAX: no limit.
#define CAP_WARM_SLICES ((size_t)16) // 1 MiB
#define CAP_CALLS 32u
void reserve_set_cap(size_t slices);
// True if `slices` more stay within it.
bool reserve_cap_admits(size_t slices);
// Slices live and warm now, in the mapping cache too.
size_t reserve_held_slices(void);

// True: slices are still to be discarded.
bool reserve_has_surplus(void);

// True: there is so little unused memory that none of it needs to be returned.
bool reserve_is_idle(void);

// The same after the release of a block of more than RESERVE_LARGE_SLICES slices. The latency
// contract does not cover such a block, so one call may discard as many slices as the block has,
// run by run: at most 40 calls to the system.
#define RESERVE_LARGE_SLICES ((size_t)64) // 4 MiB
void reserve_step_large(size_t slices);

// True if a large block that is about to be freed may stay warm.
bool reserve_admits_warm(void);

// Discards at most slices_max slices in one call to the system. Returns their number; 0: none are
// free, or the system refused.
size_t reserve_discard(unsigned slices_max);

// Populates at most slices_max slices, and their metadata, in one call to the system, after those
// that map new slices if no cold one is left. 0: no memory, or not supported.
size_t reserve_populate(unsigned slices_max);

// Populates a unit of the huge zone, 2 MiB, as one huge page if the system has one. May take 0.3
// ms; any thread. 0 as above.
size_t reserve_populate_huge(void);

// Where the system has huge pages, threads that are behind populate units of 2 MiB from
// RESERVE_HUGE_FROM live slices on, with those that they need now: by then a process has taken as
// many page faults as a unit costs, so it pays at most twice what was necessary. The keeper
// populates units ahead from RESERVE_AHEAD_FROM on, because there may be one of each; below, single
// slices. An eighth of the jumbo blocks counts as well. What is left of a unit is no surplus.
#define RESERVE_HUGE_FROM ((size_t)(KEEL_SECURE ? 32 : 8)) // 512 KiB; 2 MiB in the secure flavour
#define RESERVE_AHEAD_FROM ((size_t)96)                    // 6 MiB
bool reserve_affords_units(void);
bool reserve_affords_units_ahead(void);
#define RESERVE_BASE ((size_t)6) // slices of the reserve, beside a sixteenth of the live memory

// Below a control group's limit, this much is the program's.
#define RESERVE_KEPT ((size_t)256) // 16 MiB

// Takes warm slices for memory that will be filled. If none fit, the keeper is behind, or has not
// begun. After MISSED_SLICES_MAX such slices since the last unit was begun, this thread populates
// one, and the run is taken from it: 512 page faults of 4 KiB take 20 to 50 times as long as one of
// 2 MiB. No unit is populated without huge pages, near the control group's limit, in a limited
// address space, or if more than an eighth of the live memory and 2 MiB is warm: a quarter for a
// run of several slices, because the warm ones are scattered then. While units are being populated,
// they count as warm, and the 2 MiB are not added. Start NULL: no warm slices.
#define MISSED_SLICES_MAX 2u
#define MISSED_BESIDE_MAX 4u // while another thread populates a unit
struct run reserve_take(unsigned slices);

// True: a page may begin in warm memory although its class has not filled pages. It then occupies
// all of its memory, so there may be WARM_FIRST slices of such pages, and one more for each
// WARM_SHARE live slices. A page counts until it is filled or ends.
#define WARM_FIRST 32u
#define WARM_SHARE 2u
bool reserve_affords_warm(void);
// True: a large block of so many slices may occupy all of its memory although it is not known
// whether the program will fill it. Such blocks may have UNKNOWN_FIRST slices, and one more for
// each UNKNOWN_SHARE live slices, but not more than UNKNOWN_MAX. Each large block on warm slices,
// or on a fresh mapping with huge pages, counts until it ends, if nothing was known when it began.
// Threads that ask at the same time may together exceed it by what each of them takes. No block may
// where the system has no huge pages, with KEEL_KEEPER=off, or in the secure flavour, which puts
// guards beside large blocks.
#define UNKNOWN_FIRST ((size_t)128) // 8 MiB
#define UNKNOWN_SHARE 4u
#define UNKNOWN_MAX ((size_t)512) // 32 MiB
bool reserve_affords_unknown(size_t slices);
struct page;
void reserve_begin_unknown(struct page* page);
void reserve_end_unknown(struct page* page);
// Gives page->bytes another value.
void reserve_resize_unknown(struct page* page, size_t bytes);
void reserve_begun_warm(unsigned slices);
void reserve_ended_warm(unsigned slices);

// The system gives huge pages to those who ask. Before this call, the first unit shows it.
void reserve_set_huge(bool available);

// True while a thread populates or discards slices, which no other thread can take meanwhile.
bool reserve_is_maintained(void);

// In the child of a fork, which has only the forking thread.
void reserve_forget(void);

// Discards all free slices. Unbounded; for explicit requests.
void reserve_discard_all(void);

// --- For the keeper ------------------------------------------------------------------------------

// True while a keeper runs: it maintains the reserve and the heaps that no thread holds.
bool reserve_has_keeper(void);

// While true, reserve_step does nothing.
void reserve_set_keeper(bool kept);

// True once the program has requested warm memory: then every page begins warm.
void reserve_set_preferred(bool preferred);
bool reserve_is_preferred(void);

// Slices that should be dirty. More than that may be surplus.
void reserve_set_target(size_t slices);
size_t reserve_target(void);

// Ends the period if it is over; returns the number of slices to discard.
size_t reserve_surplus(void);
// Records that this many of them have been discarded.
void reserve_surplus_done(size_t slices);

// --- The limit (KEEL_LIMIT) ----------------------------------------------------------------------

// Bytes given out to pages and large blocks together.
size_t limit_held_bytes(void);

// True if `bytes` more stay within the limit, or there is none. Threads that ask at the same time
// may together exceed it by what each of them takes.
bool limit_admits(size_t bytes);

#endif

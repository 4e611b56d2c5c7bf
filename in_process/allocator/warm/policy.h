// The policy for memory: how much of it stays with the process although the program does not use
// it. All other files ask here; no other file has a share or a threshold of its own.
//
// A first touch of 4 KiB is a page fault, 0.5 to 2 µs, and of 2 MiB as one huge page 0.1 to 0.3 ms,
// a fifth of the 512 small ones. So memory that the program has touched once is worth keeping, and
// a program that will fill 2 MiB should get them at once. But everything that is kept, or given out
// before it is used, is taken from others. The policy has five rules.
//
// 1. *Used* is what the program has touched of its live blocks, as far as Keel knows: the carved
//    part of cold pages, all of warm ones, and all of large blocks, but an eighth of those on cold
//    memory of whose size no block was seen to be filled (policy_used). Slices that are given out
//    but untouched are not used: 200 threads with a page in each of 6 classes use 5 MiB of their
//    75.
// 2. *Idle* is what is resident and belongs to no live block and to no page with live blocks: free
//    slices that were touched, cached mappings, slices that heaps keep, and units that are being
//    populated (policy_idle). It has *one budget* for the whole process (policy_budget):
//
//      used below 16 MiB            2.5 MiB, whatever the number of threads and classes
//      above                        2.5 MiB and a fifth of what is used
//
//    and what refaults (rule 3) add.
//
//    All heaps together keep a quarter of it for themselves: that saves writes to cache lines which
//    all threads write, and no memory.
// 3. What was used within the last period may come back: memory that the program frees stays until
//    a whole period (half of KEEL_PURGE_DELAY_MS) has passed in which it was not needed. So used
//    and idle together go back to at most the highest use of this and the last period, the budget,
//    and what the keeper or kl_warm has prepared (policy_is_above). A unit of 2 MiB is populated,
//    and the keeper prepares memory, only within that. Afterwards idle memory goes back down to
//    half the budget. The keeper returns it, or without one the slow paths, a quantum each.
//    What went back above the bound, and was then taken cold in the same period, went back too
//    early: such *refaults* raise the bound for this period and the next one, by at most half of
//    the highest use. So a program whose free memory does not fit its requests keeps more of it.
//    Units that are populated count as no refaults.
// 4. Memory that is resident at once is for what will be filled. A page of small blocks gets it
//    when the thread has filled FILLED_ENOUGH pages of the class. A large block, and a page of
//    blocks above 8 KiB, gets it when such blocks were seen to be filled (fill.h). Other pages get
//    it on *trust*: 2 MiB for the process, so that a program of one thread has few cold pages, and
//    beyond that an eighth of what is used, one page for each that the thread has filled. Of blocks
//    above 8 KiB only the first page of a class is on trust, within the 2 MiB, until it ends: its
//    blocks may be given out and not filled. The rest begins cold: it occupies the system pages
//    that are touched. Pages of blocks above 8 KiB begin with one or two slices and have four when
//    two of the class were filled, in the secure flavour always.
// 5. Below a control group's limit, in a limited address space, and where the system has no huge
//    pages, no units are populated, and less stays (policy_cap_admits). Where a unit takes longer
//    than small pages would, none is populated for 64 times as long.
//
// Where time and memory exclude each other: below 16 MiB memory wins. A process of 2 MiB holds at
// most 6.5, of which 2 are on trust and 2.5 idle, and one more with refaults; its first 640 KiB are
// cold, which costs a page fault for each 4 KiB. Above, the tail wins. The first large blocks of a
// program are cold, also one of 200 MiB: nobody has seen yet that the program fills such blocks.
// Idle memory is measured against the highest use of the last two periods and not against the use
// of the moment: else a program that frees and allocates the same 40 MiB in turn would take all of
// its page faults again each time. The free of a mapping, or of a block above 4 MiB, returns what
// exceeds that; each other slow path returns 64 KiB of it. Mappings that were not needed in this
// period go first, then free slices, then other mappings. A program of one thread that frees its
// memory and then only sleeps, or calls only fast paths, keeps what it freed.
//
// What defeats it: threads that use memory one after the other, each on pages of its own, because
// free blocks of a page stay in its thread's heap. Programs whose blocks grow and shrink above 64
// KiB leave pieces that no request fits: each request takes cold memory, and 64 KiB in each slow
// path may be less than that, so that idle memory exceeds the bound. A program that frees blocks
// and then, within a period, takes cold memory for others that it does not fill: that looks like
// refaults. Programs that fill their blocks but for a few bytes of each system page; what a program
// touches inside of a warm page is not seen.
#ifndef KEEL_ALLOCATOR_WARM_POLICY_H
#define KEEL_ALLOCATOR_WARM_POLICY_H

#include "allocator/space/page_map.h"
#include "base/atomic.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The tunables. Slices have 64 KiB. "Faults": the calls that allocate and take a page fault, in
// replays of OpenTTD, SQLite and SuperTux on one thread; 112, 84 and 97 with these values and
// UNITS_FROM 4, with which the others were compared.
enum {
    // Slices: a unit of 2 MiB, and a quarter for what is left of the one before. Without the
    // quarter two slices that fit no request forbid the next unit: faults 114, 238 and 97.
    BUDGET_BASE = 40,
    BUDGET_SHARE_FROM = 256, // slices used, 16 MiB: below, the base is all
    BUDGET_SHARE = 5,        // above, one more for so many used; 8: faults 192, 84 and 97
    // Of the budget, what all heaps together may keep for themselves. A quarter saves 3 to 10 % of
    // the writes to shared cache lines (workload "slices" of tests/contention).
    KEPT_SHARE = 4,
    IDLE_SHARE = 2, // of the budget, what may stay when it was not needed
    // Of the highest use, the most that refaults add. With a fourth, `resize-large` takes three
    // times the faults; with all of it, `replace-5m-25m` 4 % more memory and no fewer.
    REFAULT_SHARE = 2,
    // Slices used, 640 KiB. With 256 KiB, 180 random programs and 23 short real ones have 8 and 7 %
    // more memory at their peak, in the same time; with 1 MiB 4 % less, in 1 to 4 % more time. The
    // secure flavour has 2 MiB: its freed large blocks wait in quarantine.
    UNITS_FROM = KEEL_SECURE ? 32 : 10,
    TRUST_BASE = 32, // slices on trust for the process: a unit; 16: faults 149, 86 and 120
    // Beyond, one slice for so many used. Nothing beyond: faults 133, 84 and 149. 2: no
    // fewer, and event loops of 3 threads occupy 16 instead of 15 MiB.
    TRUST_SHARE = 8,
    FILLED_ENOUGH = 3,  // pages of a class that a thread has filled; 2: no fewer faults
    SPARSE_SHARE = 8,   // of a large block on cold memory, the part that counts as used
    FILL_DRAWS = 8,     // fill.h: one block in so many is a probe,
    FILL_DOUBLINGS = 5, // and after so many filled ones one in 256; 0: patterns 1.10 in time
    FILL_WEIGHT = 1,    // fill.h: the estimate before, against a new probe
    FILL_ENOUGH = 208,  // fill.h: in 256ths; what is not filled is a quarter of what is
    CAP_WARM = 16,      // slices that stay warm even above a control group's limit
    // µs. As one huge page a unit takes 80 to 300, as 512 small pages 250 to 700. What slow huge
    // pages have lost may exceed what fast ones have won by so much; then none is taken for so many
    // times as long as the last one took.
    UNIT_SMALL_US = 512,
    HUGE_LOSS_US = 8192,
    HUGE_PAUSE = 64,
    PERIODS_A_DELAY = 2, // periods in KEEL_PURGE_DELAY_MS
};

// The state. Slices, unless another unit is said; any thread writes.
struct policy {
    atomic_signed untouched; // bytes of pages and large blocks that the program has not touched yet
    atomic_signed absent;    // bytes of cached mappings that the program has not touched either
    atomic_signed trusted;   // of pages on trust; those of wide blocks until they end
    atomic_signed kept;      // free slices in heaps, which count as live in slice_counts
    atomic_signed under_way; // units of 2 MiB that threads are populating, or ask for
    atomic_bits peak_now;    // highest use of this period
    atomic_bits peak_before; // and of the last one
    atomic_bits early;       // slices that went back above the bound, less those taken cold since
    atomic_bits cold_noted;  // of run_cold_taken(), what has been compared with them
    atomic_bits refaults_now;    // of the early ones, those that requests then took cold
    atomic_bits refaults_before; // and in the last period
    atomic_bits lowest;          // lowest number of free touched slices in this period
    atomic_bits surplus; // of them, those that the last period did not need, less those returned
    atomic_bits lowest_cached; // lowest number of bytes of cached mappings in this period
    atomic_bits period_end_ms; // 0: no period has begun
    atomic_bits target;        // free touched slices that the keeper prepares or kl_warm demands
    atomic_bits cap;           // live and idle slices that the control group admits; 0: no limit
    atomic_state has_keeper;   // a keeper runs: slow paths return nothing
    atomic_state is_preferred; // the program has called kl_warm: all pages begin warm
    atomic_state huge;         // enum policy_huge
    atomic_bits huge_lost_us;  // what slow huge pages have lost, less what fast ones have won
    atomic_bits huge_from_ms;  // no huge page before this time
};
enum policy_huge { HUGE_UNKNOWN, HUGE_NONE, HUGE_AVAILABLE }; // whether units are huge pages
extern struct policy policy;

size_t policy_used(void);
size_t policy_idle(void);
size_t policy_budget(size_t used);
size_t policy_rest(void); // what may stay idle when it was not needed for a period

// True: heaps may keep so many slices more.
bool policy_admits_kept(size_t slices);
// True: a unit may be populated, of which `slices` are needed at once.
bool policy_admits_unit(unsigned slices);
// The same for a thread that populates it now: if true, the unit counts as idle until
// policy_end_unit. A refused request counts for a moment, too, so of threads that ask for the last
// one at the same time perhaps none gets it.
bool policy_begin_unit(unsigned slices);
void policy_end_unit(void);
// True: a page of so many slices may begin warm on trust. `earned`: its thread fills pages.
bool policy_trusts(unsigned slices, bool earned);
// Slices that used and idle memory together exceed what rule 3 admits by.
size_t policy_excess(void);
KEEL_INLINE bool policy_is_above(void) {
    return policy_excess() > 0;
}

// Notes what is used now. For slow paths that take or release slices.
void policy_note(void);
// True: all requests of this period left some of the cached mappings.
bool policy_has_unneeded_mappings(void);
// The free slices that are to go back; ends the period if it is over.
size_t policy_surplus(void);
// So many slices have gone back because policy_excess demanded it.
void policy_returned_early(size_t slices);
// So many of the surplus have gone back.
void policy_returned(size_t slices);
KEEL_INLINE bool policy_has_surplus(void) {
    return atomic_get(&policy.surplus) > 0;
}
// True: there is nothing to return, now or later.
bool policy_is_at_rest(void);

// A large block on cold memory begins, ends, or gets another size. O(1).
void policy_begin_sparse(struct page* page);
void policy_end_sparse(struct page* page);
void policy_resize_large(struct page* page, size_t bytes); // sets page->bytes
// A large block that ends becomes a cached mapping; a cached mapping becomes a block. Which of the
// cached mappings are sparse is not known exactly. O(1).
void policy_cache(bool sparse, size_t bytes);
void policy_uncache(struct page* page);
// A block that will be filled is a mapping of new memory.
void policy_note_mapping(size_t bytes);

KEEL_INLINE void policy_touch(int64_t bytes) {
    (void)atomic_sub(&policy.untouched, bytes);
}
KEEL_INLINE void policy_trust(int64_t slices) {
    (void)atomic_add(&policy.trusted, slices);
}
KEEL_INLINE void policy_keep(int64_t slices) {
    (void)atomic_add(&policy.kept, slices);
}

// The control group leaves room for this many slices, live and idle together; SIZE_MAX: no limit.
void policy_set_cap(size_t slices);
bool policy_cap_admits(size_t slices);
bool policy_is_above_cap(void);
size_t policy_held(void); // live and idle slices

KEEL_INLINE void policy_set_keeper(bool runs) {
    atomic_set(&policy.has_keeper, runs);
}
KEEL_INLINE bool policy_has_keeper(void) {
    return atomic_get(&policy.has_keeper) != 0;
}
KEEL_INLINE void policy_set_preferred(bool by_program) {
    atomic_set(&policy.is_preferred, by_program);
}
KEEL_INLINE bool policy_is_preferred(void) {
    return atomic_get(&policy.is_preferred) != 0;
}
KEEL_INLINE void policy_set_target(size_t slices) {
    atomic_set(&policy.target, slices);
}
KEEL_INLINE size_t policy_target(void) {
    return atomic_get(&policy.target);
}
// The system gives huge pages to those who ask. Before this call, the first unit shows it.
KEEL_INLINE void policy_set_huge(bool available) {
    atomic_set(&policy.huge, available ? HUGE_AVAILABLE : HUGE_NONE);
}
bool policy_may_have_huge(void);
// The system took so long for a huge page. 2 MiB that are free but no longer have memory of the
// machine, or must first be gathered from smaller pieces, take 5 ms and more.
void policy_note_huge(uint64_t took_us);

// In the child of a fork, which has only the forking thread.
void policy_forget(void);

// Verifies that no count is negative; only when no other thread is active.
bool policy_check(void);

#endif

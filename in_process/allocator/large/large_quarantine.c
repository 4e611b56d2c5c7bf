// Secure flavour: the quarantine of large blocks, two stages of QUARANTINE_PLACES blocks each.
//
//   free --> warm: the block keeps its memory --> released: the slices serve another block
//            |
//            `--(the keeper, after a purge delay)--> guarded --> released
//
// In the first stage the block is closed: each access ends the program (SIGSEGV). This takes two
// system calls, one when it enters and one when it leaves, so it is done for CLOSINGS blocks and
// after that for one in CLOSING_CYCLES. In the others a write to the first or the last word is
// found when the block leaves. In the second stage the block has guards and no memory. A thread of
// the program never puts a block into the second stage, and takes one out only for want of memory.
//
// If the system refuses to make a block accessible, because the process has as many mappings as it
// may have, the block keeps its place, and leaves later; a free asks the system once. The next one
// takes another place. If none is left, or there is no room for its bytes, the next one is released
// at once.
#include "allocator/large/large.h"
#include "allocator/large/quarantine.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "base/cycles.h"
#include "os/memory.h"
#include "os/thread.h"
#include <string.h>

static struct quarantine warm;
static struct quarantine guarded;

// A block in the first stage has this value in its first and its state word. With
// KEEL_ZERO_ON_FREE, the words between them are 0.
static uint64_t freed_value(const struct page* page) {
    return ~large_state_value(page);
}

static void mark_freed(const struct page* page) {
    KEEL_ASSERT(page->usable >= LARGE_USABLE_MIN);
    if (block_guard.zero != 0) memset(page->start, 0, page->usable);
    *(uint64_t*)page->start = freed_value(page);
    *large_state(page) = freed_value(page);
}

static bool is_as_freed(const struct page* page) {
    const uint64_t* first = (uint64_t*)page->start;
    if (*first != freed_value(page) || *large_state(page) != freed_value(page)) return false;
    if (block_guard.zero == 0) return true;
    const size_t words = page->usable / sizeof *first;
    for (size_t i = 1; i < words; i++) {
        if (first[i] != 0) return false;
    }
    for (const char* at = (const char*)(first + words); at < (const char*)large_state(page); at++) {
        if (*at != 0) return false;
    }
    return true;
}

static void require_as_freed(struct quarantined range) {
    const struct page* page = page_of(range.start);
    if (range.access == ACCESS_UNKNOWN || is_as_freed(page)) return;
    panic_block(FAULT_AFTER_FREE, page->start,
                (struct fault_block){.bytes = page->usable, .thread = os_thread_id()});
}

// Guards, and ranges that are closed, would divide the huge page of a unit of 2 MiB.
static bool may_have_guards(const char* start) {
    return !run_splits_unit((struct free_run){(char*)(uintptr_t)start, 1});
}

#define CLOSINGS 16u
#define CLOSING_CYCLES 500000u // 0.1 to 0.3 ms

// Blocks that are freed one after the other are closed in advance of their turns, CLOSINGS at most.
static bool may_close(void) {
    static atomic_bits turn;
    const uint64_t now = cycles_now();
    uint64_t next = atomic_get(&turn);
    uint64_t least =
        now > CLOSINGS * (uint64_t)CLOSING_CYCLES ? now - CLOSINGS * (uint64_t)CLOSING_CYCLES : 0;
    if (next < least) next = least;
    if (next > now) return false;
    atomic_set(&turn, next + CLOSING_CYCLES);
    return true;
}

static void range_close(struct quarantined* range) {
    KEEL_ASSERT(range->access == ACCESS_OPEN);
    if (!may_have_guards(range->start) || !may_close()) return;
    os_forbid_access(range->start, range->bytes);
    range->access = ACCESS_CLOSED;
}

// False: the system refuses.
static bool range_reopen(struct quarantined range) {
    if (range.access == ACCESS_UNKNOWN && !os_unguard(range.start, range.bytes)) return false;
    return range.access == ACCESS_OPEN || os_allow_writing(range.start, range.bytes);
}

static bool range_unseal(struct quarantined range) {
    if (!range_reopen(range)) return false;
    require_as_freed(range);
    *(uint64_t*)range.start = 0;
    large_unseal(page_of(range.start));
    return true;
}

static const struct quarantined none = {0};

// The memory of a block that leaves a stage goes back. False: the system refuses. `refused`, if not
// NULL: the system has refused it for another block, and is not asked again.
static bool leave(struct quarantine* stage, unsigned at, struct quarantined range, bool* refused) {
    bool asks = stage == &guarded || range.access != ACCESS_OPEN;
    if (asks && refused != NULL && *refused) return false;
    bool usable = stage == &guarded ? os_unguard(range.start, range.bytes) : range_unseal(range);
    if (!usable && refused != NULL) *refused = true;
    if (!usable) return false;
    quarantine_note(stage, at, none); // first: slices are released once
    unsigned slices = (unsigned)(range.bytes / SLICE_BYTES);
    if (stage == &guarded)
        run_release_empty(range.start, slices);
    else
        run_release(range.start, slices);
    return true;
}

// Holds a place from which the range has left. QUARANTINE_PLACES: none can leave.
static unsigned place_make(struct quarantine* stage, bool* refused) {
    struct quarantined oldest;
    for (unsigned tries = 0; tries < QUARANTINE_PLACES; tries++) {
        unsigned at = quarantine_turn(stage);
        if (!quarantine_hold(stage, at, &oldest)) continue;
        if (oldest.start == NULL || leave(stage, at, oldest, refused)) return at;
        quarantine_set(stage, at, oldest);
    }
    return QUARANTINE_PLACES;
}

// Lets the ranges leave, from the oldest on, until at most this many bytes are left. False: some
// cannot.
static bool stage_shrink(struct quarantine* stage, int64_t bytes, bool* refused) {
    unsigned next = atomic_get(&stage->next);
    struct quarantined range;
    bool all = true;
    for (unsigned i = 0; i < QUARANTINE_PLACES && atomic_get(&stage->bytes) > bytes; i++) {
        unsigned at = (next + i) % QUARANTINE_PLACES;
        if (quarantine_at(stage, at) == 0 || !quarantine_hold(stage, at, &range)) continue;
        bool leaves = range.start == NULL || leave(stage, at, range, refused);
        quarantine_set(stage, at, leaves ? none : range);
        all &= leaves;
    }
    return all || atomic_get(&stage->bytes) <= bytes;
}

// Bytes that the first stage may have. What is in it counts as held.
static int64_t bytes_admitted(void) {
    size_t share = limit_held_bytes() / LARGE_QUARANTINE_SHARE;
    if (share < LARGE_QUARANTINE_MIN) share = LARGE_QUARANTINE_MIN;
    return (int64_t)(share < LARGE_QUARANTINE_MAX ? share : LARGE_QUARANTINE_MAX);
}

void large_quarantine_enter(struct page* page) {
    KEEL_ASSERT(KEEL_SECURE && (atomic_get(&page->owner) & PAGE_LARGE) != 0);
    struct quarantined range = {page->start, page->bytes, os_thread_id(), ACCESS_OPEN};
    const int64_t admitted = bytes_admitted();
    bool refused = false;
    mark_freed(page);
    large_end(page);
    // A block that is larger than what is admitted is the only one.
    unsigned at = stage_shrink(&warm, admitted - (int64_t)range.bytes, &refused)
                      ? place_make(&warm, &refused)
                      : QUARANTINE_PLACES;
    if (at == QUARANTINE_PLACES) {
        (void)range_unseal(range); // it is not closed
        run_release(range.start, (unsigned)(range.bytes / SLICE_BYTES));
        return;
    }
    quarantine_note(&warm, at, range);
    range_close(&range);
    quarantine_set(&warm, at, range);
}

void large_require_not_freed(const void* address) {
    if (!KEEL_SECURE || !address_is_possible(address)) return;
    const void* start = address_untagged(address);
    struct quarantined range = quarantine_find(&warm, start);
    if (range.start == NULL) range = quarantine_find(&guarded, start);
    if (range.start == NULL) return;
    panic_block(FAULT_DOUBLE_FREE, address,
                (struct fault_block){.bytes = page_of(range.start)->usable,
                                     .freed_by = range.thread,
                                     .thread = os_thread_id()});
}

// --- The second stage ----------------------------------------------------------------------------

// From the first stage to the second. If the system refuses, the block stays where it is.
static void guard_range(unsigned warm_at) {
    struct quarantined range;
    bool refused = false;
    if (!quarantine_hold(&warm, warm_at, &range)) return;
    unsigned at = range.start == NULL ? QUARANTINE_PLACES : place_make(&guarded, &refused);
    bool leaves = at != QUARANTINE_PLACES && range_reopen(range);
    if (leaves) {
        require_as_freed(range);
        (void)os_guard(range.start, range.bytes);
    }
    quarantine_set(&warm, warm_at, leaves ? none : range); // first: it is in one place at most
    if (at != QUARANTINE_PLACES) quarantine_set(&guarded, at, leaves ? range : none);
}

bool large_quarantine_guard(uint64_t now_ms, uint64_t delay_ms) {
    static struct {
        uintptr_t start; // what was in the place at the last look
        uint64_t since_ms;
    } seen[QUARANTINE_PLACES]; // of the keeper
    bool waits = false;
    for (unsigned at = 0; KEEL_SECURE && at < QUARANTINE_PLACES; at++) {
        uintptr_t start = quarantine_at(&warm, at);
        if (start != seen[at].start) {
            seen[at].start = start;
            seen[at].since_ms = now_ms;
        }
        if (start == 0 || !may_have_guards((const char*)start)) continue;
        if (now_ms - seen[at].since_ms < delay_ms) {
            waits = true;
            continue;
        }
        guard_range(at);
    }
    return waits;
}

void large_quarantine_end(void) {
    (void)stage_shrink(&warm, 0, NULL);
    (void)stage_shrink(&guarded, 0, NULL);
}

void large_quarantine_forget(void) {
    quarantine_forget(&warm);
    quarantine_forget(&guarded);
}

// What is in the quarantine belongs to no block, and its slices are taken.
static bool ranges_check(const struct quarantine* quarantine) {
    for (unsigned i = 0; i < QUARANTINE_PLACES; i++) {
        const char* start = (const char*)quarantine_at(quarantine, i);
        if (start == NULL) continue;
        if (!window_owns(start) || atomic_get(&page_of(start)->owner) != 0) return false;
    }
    return quarantine_is_consistent(quarantine);
}

bool large_quarantine_check(void) {
    if (!KEEL_CHECKS) return true;
    return ranges_check(&warm) && ranges_check(&guarded);
}

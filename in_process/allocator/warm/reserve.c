#include "allocator/warm/reserve.h"
#include "allocator/space/arena.h"
#include "allocator/space/huge_unit.h"
#include "allocator/space/page_map.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/mapping_cache.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/panic.h"
#include "base/probe.h"
#include "os/memory.h"
#include "os/process.h"

#define STEP_UNMAP_BYTES ((size_t)1 << 20)
#define STEP_CAP_BYTES ((size_t)16 << 20)
#define MAPPING_CUT_CALLS 4u // of mapping_cache_age for up to 4 MiB
#define STEP_CALLS 3u        // for a mapping of up to 4 MiB
#define STEP_LARGE_CALLS 30u // 80 MiB in runs of 4 MiB take 20
#define HELD_MAX 4u          // more threads than maintain memory at the same time

static atomic_signed maintained;   // runs that are being populated or discarded
static atomic_word held[HELD_MAX]; // those runs: start | slices << 1 | 1 if populated; 0: none

static void return_warm(void) {
    if (option_get(OPTION_RESET_DELAY) < 0) return; // the program keeps all
    for (unsigned calls = 0; calls < CAP_CALLS && policy_is_above_cap(); calls++) {
        if (mapping_cache_age(UINT64_MAX, STEP_CAP_BYTES) > 0) continue;
        if (reserve_discard(SUPERBLOCK_SLICES) == 0) return;
    }
}

void reserve_note(void) {
    policy_note();
    if (KEEL_UNLIKELY(policy_is_above_cap())) return_warm();
}

// Records a run that is in no superblock, for a child of fork that has no such thread.
static atomic_word* hold(struct free_run run, bool populated) {
    KEEL_ASSERT(run.slices > 0 && run.slices <= SUPERBLOCK_SLICES);
    KEEL_ASSERT((uintptr_t)run.start % SLICE_BYTES == 0);
    uintptr_t word = (uintptr_t)run.start | run.slices << 1 | populated;
    for (unsigned i = 0; i < HELD_MAX; i++) {
        uintptr_t none = 0;
        if (atomic_try_word(&held[i], &none, word)) return &held[i];
    }
    return NULL;
}
static unsigned put_back(struct free_run run, enum run_state state, atomic_word* record) {
    KEEL_ASSERT(run.slices > 0);
    if (record != NULL) atomic_set_release(record, 0); // first: a run is returned once
    return run_return(run, state);
}

// What other threads held at the fork may have memory, so it counts as warm.
static void put_back_held(void) {
    for (unsigned i = 0; i < HELD_MAX; i++) {
        uintptr_t word = atomic_get(&held[i]);
        if (word == 0) continue;
        char* start = (char*)round_down(word, SLICE_BYTES);
        struct free_run run = {start, (unsigned)(word % SLICE_BYTES) >> 1};
        (void)put_back(run, (word & 1) != 0 ? RUN_POPULATED : RUN_AS_BEFORE, &held[i]);
    }
}

// Adds the number of calls to the system to *calls. Returns the slices that had memory: of a unit,
// which is discarded as a whole, perhaps one.
static size_t discard_run(unsigned slices_max, unsigned* calls) {
    KEEL_ASSERT(slices_max > 0);
    struct free_run run = run_take_dirty(slices_max);
    if (run.slices == 0) return 0;
    KEEL_ASSERT(run.slices <= slices_max || run.slices == HUGE_SLICES);
    atomic_word* record = hold(run, false);
    bool splits = run_splits_unit(run);
    if (splits) huge_units_forbid(run);
    *calls += splits ? 2 : 1;
    if (!os_discard(run.start, run.slices * SLICE_BYTES)) {
        (void)put_back(run, RUN_AS_BEFORE, record);
        return 0;
    }
    unsigned touched = put_back(run, RUN_DISCARDED, record);
    count_event(EVENT_PURGED_SLICES, touched);
    KEEL_PROBE(purged, run.start, touched);
    return touched;
}

static size_t discard(unsigned slices_max, unsigned* calls) {
    (void)atomic_add(&maintained, 1);
    size_t done = discard_run(slices_max, calls);
    (void)atomic_sub_release(&maintained, 1);
    if (slices_max <= PURGE_QUANTUM_SLICES) count_work(WORK_PURGE_SLICES, done);
    return done;
}

bool reserve_is_maintained(void) {
    return atomic_get_acquire(&maintained) > 0;
}
void reserve_forget(void) {
    mapping_cache_forget();
    put_back_held();
    atomic_set(&maintained, 0);
    policy_forget();
}

size_t reserve_discard(unsigned slices_max) {
    unsigned calls = 0;
    return discard(slices_max, &calls);
}

// The system may have populated a part. That part must not stay, because nothing would discard it:
// the slices count as cold.
static void populate_undo(struct free_run run, atomic_word* record) {
    KEEL_ASSERT(run.slices > 0);
    bool discarded = os_discard(run.start, run.slices * SLICE_BYTES);
    (void)put_back(run, discarded ? RUN_DISCARDED : RUN_POPULATED,
                   record); // all zero in both cases
    count_event(EVENT_POPULATE_REFUSED, 1);
}

// Before the keeper has read whether the system has huge pages, the first unit shows it: true once.
static bool is_first_unit(void) {
    uint32_t unknown = HUGE_UNKNOWN;
    return atomic_try_state(&policy.huge, &unknown, HUGE_NONE);
}

// Near a limit the system refuses os_populate, but not os_touch: so the first page decides.
static size_t populate(struct free_run run, bool as_unit) {
    KEEL_ASSERT(!as_unit || run.slices % HUGE_SLICES == 0);
    size_t bytes = run.slices * SLICE_BYTES;
    if (run.slices == 0) return 0;
    atomic_word* record = hold(run, true);
    if (as_unit) {
        uint64_t took_us = 0;
        bool is_huge = os_touch_huge(run.start, bytes, &took_us);
        if (!is_huge && is_first_unit()) {
            populate_undo(run, record);
            return 0;
        }
        if (is_huge)
            policy_note_huge(took_us);
        else
            os_touch(run.start, bytes);
    } else if (os_populate(run.start, os_page_bytes())) {
        os_touch(run.start, bytes);
    } else {
        populate_undo(run, record);
        return 0;
    }
    // This thread owns the slices now, so it may write their metadata: that populates its pages.
    for (unsigned i = 0; i < run.slices; i++) {
        struct page* page = page_of(run.start + i * SLICE_BYTES);
        page->start = NULL;
        page_use(page)->absent = 0;
    }
    (void)put_back(run, RUN_POPULATED, record);
    count_event(EVENT_POPULATED_SLICES, run.slices);
    return run.slices;
}

size_t reserve_populate(unsigned slices_max) {
    KEEL_ASSERT(slices_max > 0);
    (void)atomic_add(&maintained, 1);
    struct free_run run = run_take_cold(slices_max);
    if (run.slices == 0 && window_grow(1)) run = run_take_cold(slices_max);
    size_t done = populate(run, false);
    (void)atomic_sub_release(&maintained, 1);
    return done;
}

size_t reserve_populate_huge(void) {
    size_t done = 0;
    (void)atomic_add(&maintained, 1);
    struct free_run run = run_take_closed();
    if (run.slices != 0) {
        KEEL_ASSERT(run.slices == HUGE_SLICES);
        huge_unit_prefer(run);
        done = populate(run, true);
        huge_units_map_ahead(run);
    }
    (void)atomic_sub_release(&maintained, 1);
    return done;
}

size_t reserve_populate_unit(unsigned slices) {
    if (window_space_is_limited() || !policy_begin_unit(slices)) return 0;
    size_t done = reserve_populate_huge();
    policy_end_unit();
    return done;
}

struct run reserve_take_of_unit(unsigned slices) {
    KEEL_ASSERT(slices > 0 && slices <= HUGE_SLICES);
    if (reserve_populate_unit(slices) == 0) return (struct run){NULL, false, false, 0};
    count_event(EVENT_UNITS, 1);
    return run_allocate_warm(slices);
}

struct run reserve_take(unsigned slices) {
    struct run run = run_allocate_warm(slices);
    return run.start != NULL ? run : reserve_take_of_unit(slices);
}

static size_t unmap_oldest(size_t bytes_max, unsigned* calls) {
    *calls += MAPPING_CUT_CALLS;
    return mapping_cache_age(UINT64_MAX, bytes_max) / SLICE_BYTES;
}

// Returns at most `slices` free slices, or bytes_max of a mapping, that are idle above the policy's
// bound: a mapping that was not needed in this period, then free slices, then any mapping.
static size_t return_idle(size_t slices, size_t bytes_max, unsigned* calls) {
    if (policy_has_unneeded_mappings()) {
        size_t done = unmap_oldest(bytes_max, calls);
        return done > 0 ? done : discard((unsigned)slices, calls);
    }
    size_t done = discard((unsigned)slices, calls);
    return done > 0 ? done : unmap_oldest(bytes_max, calls);
}

// The same if the bound is exceeded, and a unit more than what exceeds it: else the bound would
// admit none until the program uses as much again. In slices.
static size_t give_back(size_t slices, size_t bytes_max, unsigned* calls) {
    size_t excess = policy_excess();
    if (excess == 0) return 0;
    size_t most = excess + HUGE_SLICES;
    if (most < slices) slices = most;
    if (most * SLICE_BYTES < bytes_max) bytes_max = most * SLICE_BYTES;
    bool early = !policy_is_above_cap();
    size_t done = return_idle(slices, bytes_max, calls);
    if (early) policy_returned_early(done);
    return done;
}

// A keeper returns what was not needed, but threads can exceed the bound faster than it looks.
void reserve_step_large(size_t slices) {
    KEEL_ASSERT(slices > 0);
    bool has_keeper = policy_has_keeper();
    if (!has_keeper) (void)mapping_cache_age(os_clock_ms(), slices * SLICE_BYTES);
    size_t due = has_keeper ? 0 : policy_surplus();
    const unsigned calls_max = slices > RESERVE_LARGE_SLICES ? STEP_LARGE_CALLS : STEP_CALLS;
    for (unsigned calls = 0; calls < calls_max && slices > 0;) {
        size_t most = slices < SUPERBLOCK_SLICES ? slices : SUPERBLOCK_SLICES;
        size_t done =
            due > 0 ? discard((unsigned)most, &calls) : give_back(most, most * SLICE_BYTES, &calls);
        if (due > 0) policy_returned(done > 0 ? done : due);
        if (done == 0) break;
        slices -= done < slices ? done : slices;
        due -= done < due ? done : due;
    }
}

bool reserve_step(void) {
    if (policy_has_keeper()) return false;
    size_t due = policy_surplus();
    bool aged = mapping_cache_bytes() > 0 && mapping_cache_age(os_clock_ms(), STEP_UNMAP_BYTES) > 0;
    if (due > 0) {
        size_t done = reserve_discard(PURGE_QUANTUM_SLICES);
        policy_returned(done > 0 ? done : due);
        return true;
    }
    unsigned calls = 0; // bounded by the arguments
    return aged || give_back(PURGE_QUANTUM_SLICES, STEP_UNMAP_BYTES, &calls) > 0;
}

void reserve_discard_all(void) {
    mapping_cache_clear();
    // Bounded by what is free now: other threads may free more meanwhile.
    for (size_t left = run_dirty_slices(); left > 0;) {
        size_t done = reserve_discard(64);
        if (done == 0) break;
        left -= done < left ? done : left;
    }
}

size_t limit_held_bytes(void) {
    return (run_live_slices() + arena_live_slices()) * SLICE_BYTES + jumbo_live_bytes();
}

bool limit_admits(size_t bytes) {
    int64_t limit = option_get(OPTION_LIMIT);
    if (KEEL_LIKELY(limit <= 0)) return true;
    size_t held = limit_held_bytes();
    return held <= (uint64_t)limit && bytes <= (uint64_t)limit - held;
}

bool reserve_check(void) {
    if (!KEEL_CHECKS) return true;
    for (unsigned i = 0; i < HELD_MAX; i++)
        if (atomic_get(&held[i]) != 0) return false;
    return atomic_get(&maintained) == 0;
}

#include "allocator/slices/reserve.h"
#include "allocator/slices/arena.h"
#include "allocator/slices/huge_unit.h"
#include "allocator/slices/mapping_cache.h"
#include "allocator/slices/page_map.h"
#include "allocator/slices/run.h"
#include "allocator/slices/window.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/options.h"
#include "os/memory.h"
#include "os/process.h"

#define SLACK_SLICES ((size_t)512) // 32 MiB
#define IDLE_SLICES ((size_t)8)    // 512 KiB
#define STEP_UNMAP_BYTES ((size_t)1 << 20)
#define STEP_CAP_BYTES ((size_t)16 << 20)
#define STEP_LARGE_CALLS 30u // 80 MiB in runs of 4 MiB take 20
#define HELD_MAX 4u          // more threads than maintain memory at the same time

enum huge { HUGE_UNKNOWN, HUGE_NONE, HUGE_AVAILABLE };

static atomic_bits period_end_ms; // 0: no period has begun
static atomic_bits period_lowest; // lowest dirty count of this period
static atomic_bits peak_now;      // highest count of live slices in this period
static atomic_bits peak_before;   // and in the period before
static atomic_bits surplus;       // slices still to be discarded
static atomic_bits target;        // the target: slices that are never surplus
static atomic_state kept;
static atomic_state preferred;
static atomic_bits cap;            // 0: none
static atomic_state huge;          // enum huge: whether units of 2 MiB are huge pages
static atomic_bits missed;         // slices, since the last unit was begun
static atomic_signed units_begun;  // units that are being populated
static atomic_signed maintained;   // runs that are being populated or discarded
static atomic_word held[HELD_MAX]; // those runs: start | slices << 1 | 1 if populated; 0: none
static atomic_bits begun_warm;     // slices of pages that reserve_affords_warm admitted, by now
static atomic_bits unknown;        // slices of large blocks that reserve_affords_unknown counts

void reserve_set_keeper(bool by_keeper) {
    atomic_set(&kept, by_keeper);
}
bool reserve_has_keeper(void) {
    return atomic_get(&kept) != 0;
}
void reserve_set_preferred(bool by_program) {
    atomic_set(&preferred, by_program);
}
bool reserve_is_preferred(void) {
    return atomic_get(&preferred) != 0;
}
void reserve_set_target(size_t slices) {
    atomic_set(&target, slices);
}
size_t reserve_target(void) {
    return atomic_get(&target);
}

static size_t live_slices(void) {
    return run_live_slices() + jumbo_live_bytes() / SLICE_BYTES;
}

static size_t recent_peak(void) {
    uint64_t now = atomic_get(&peak_now);
    uint64_t before = atomic_get(&peak_before);
    return now > before ? now : before;
}

static size_t warm_slices(void) {
    return run_dirty_slices() + mapping_cache_bytes() / SLICE_BYTES;
}

static void record_peak(void) {
    size_t live = live_slices();
    if (live > atomic_get(&peak_now)) atomic_set(&peak_now, live);
    size_t dirty = run_dirty_slices();
    if (dirty < atomic_get(&period_lowest)) atomic_set(&period_lowest, dirty);
}

void reserve_set_cap(size_t slices) {
    atomic_set(&cap, slices == SIZE_MAX ? 0 : slices > 0 ? slices : 1);
}

size_t reserve_held_slices(void) {
    return live_slices() + warm_slices();
}

bool reserve_cap_admits(size_t slices) {
    uint64_t most = atomic_get(&cap);
    return KEEL_LIKELY(most == 0) || reserve_held_slices() + slices <= most;
}

static bool above_cap(void) {
    return !reserve_cap_admits(0) && warm_slices() > CAP_WARM_SLICES;
}

static void return_warm(void) {
    if (option_get(OPTION_RESET_DELAY) < 0) return; // the program keeps all
    for (unsigned calls = 0; calls < CAP_CALLS && above_cap(); calls++) {
        if (mapping_cache_age(UINT64_MAX, STEP_CAP_BYTES) > 0) continue;
        if (reserve_discard(SUPERBLOCK_SLICES) == 0) return;
    }
}

void reserve_note(void) {
    record_peak();
    if (KEEL_UNLIKELY(above_cap())) return_warm();
}

// A race between threads loses at most one record; the next period corrects that.
static void period_turn(void) {
    uint64_t now = os_clock_ms();
    uint64_t end = atomic_get(&period_end_ms);
    int64_t delay = option_get(OPTION_RESET_DELAY);
    if (delay < 0) return;
    if (now < end && end <= now + (uint64_t)delay) return; // else the delay was shortened meanwhile
    if (!atomic_try_bits(&period_end_ms, &end, now + (uint64_t)delay)) return;
    record_peak();
    uint64_t lowest = atomic_get(&period_lowest);
    uint64_t target_now = atomic_get(&target);
    atomic_set(&surplus, end != 0 && lowest > target_now ? lowest - target_now : 0);
    atomic_set(&period_lowest, run_dirty_slices());
    atomic_set(&peak_before, atomic_get(&peak_now));
    atomic_set(&peak_now, live_slices());
}

// Without a keeper, no unit: the calls that return one later would be the program's.
static bool may_have_huge(void) {
    uint32_t known = atomic_get(&huge);
    return known == HUGE_AVAILABLE ||
           (known == HUGE_UNKNOWN && option_get(OPTION_KEEPER) != KEEPER_NEVER);
}

// A jumbo block may be sparse, so an eighth of it counts.
static size_t likely_used_slices(void) {
    return run_live_slices() + jumbo_live_bytes() / SLICE_BYTES / 8;
}

bool reserve_affords_units(void) {
    return likely_used_slices() >= RESERVE_HUGE_FROM;
}

// What is left of a unit stays: it would soon be populated again.
static size_t due_surplus(void) {
    size_t due = atomic_get(&surplus);
    return due <= HUGE_SLICES && reserve_affords_units() && may_have_huge() ? 0 : due;
}

bool reserve_has_surplus(void) {
    return due_surplus() > 0;
}

bool reserve_is_idle(void) {
    return run_dirty_slices() <= IDLE_SLICES && mapping_cache_bytes() == 0;
}

size_t reserve_surplus(void) {
    period_turn();
    return due_surplus();
}

void reserve_surplus_done(size_t slices) {
    uint64_t due = atomic_get(&surplus);
    atomic_set(&surplus, due > slices ? due - slices : 0);
}

// Records a run that is in no superblock, for a child of fork that has no such thread.
static atomic_word* hold(struct free_run run, bool populated) {
    uintptr_t word = (uintptr_t)run.start | run.slices << 1 | populated;
    for (unsigned i = 0; i < HELD_MAX; i++) {
        uintptr_t none = 0;
        if (atomic_try_word(&held[i], &none, word)) return &held[i];
    }
    return NULL;
}
static void put_back(struct free_run run, enum run_state state, atomic_word* record) {
    if (record != NULL) atomic_set_release(record, 0); // first: a run is returned once
    run_return(run, state);
}

// What other threads held at the fork may have memory, so it counts as warm.
static void put_back_held(void) {
    for (unsigned i = 0; i < HELD_MAX; i++) {
        uintptr_t word = atomic_get(&held[i]);
        if (word == 0) continue;
        char* start = (char*)round_down(word, SLICE_BYTES);
        struct free_run run = {start, (unsigned)(word % SLICE_BYTES) >> 1};
        put_back(run, (word & 1) != 0 ? RUN_POPULATED : RUN_AS_BEFORE, &held[i]);
    }
}

// Adds the number of calls to the system to *calls.
static size_t discard_run(unsigned slices_max, unsigned* calls) {
    struct free_run run = run_take_dirty(slices_max);
    if (run.slices == 0) return 0;
    atomic_word* record = hold(run, false);
    bool splits = run_splits_unit(run);
    if (splits) huge_units_forbid(run);
    *calls += splits ? 2 : 1;
    if (!os_discard(run.start, run.slices * SLICE_BYTES)) {
        put_back(run, RUN_AS_BEFORE, record);
        return 0;
    }
    put_back(run, RUN_DISCARDED, record);
    count_event(EVENT_PURGED_SLICES, run.slices);
    return run.slices;
}

static size_t discard(unsigned slices_max, unsigned* calls) {
    (void)atomic_add(&maintained, 1);
    size_t done = discard_run(slices_max, calls);
    (void)atomic_sub_release(&maintained, 1);
    return done;
}

bool reserve_is_maintained(void) {
    return atomic_get_acquire(&maintained) > 0;
}
void reserve_forget(void) {
    mapping_cache_forget();
    put_back_held();
    atomic_set(&maintained, 0);
    atomic_set(&units_begun, 0);
}

size_t reserve_discard(unsigned slices_max) {
    unsigned calls = 0;
    return discard(slices_max, &calls);
}

// The system may have populated a part. That part must not stay, because nothing would discard it:
// the slices count as cold.
static void populate_undo(struct free_run run, atomic_word* record) {
    bool discarded = os_discard(run.start, run.slices * SLICE_BYTES);
    put_back(run, discarded ? RUN_DISCARDED : RUN_POPULATED, record); // all zero in both cases
    count_event(EVENT_POPULATE_REFUSED, 1);
}

// Before the keeper has read whether the system has huge pages, the first unit shows it: true once.
static bool is_first_unit(void) {
    uint32_t unknown = HUGE_UNKNOWN;
    return atomic_try_state(&huge, &unknown, HUGE_NONE);
}

// Near a limit the system refuses os_populate, but not os_touch: so the first page decides.
static size_t populate(struct free_run run, bool as_unit) {
    size_t bytes = run.slices * SLICE_BYTES;
    if (run.slices == 0) return 0;
    atomic_word* record = hold(run, true);
    if (as_unit) {
        bool is_huge = os_touch_huge(run.start, bytes);
        if (!is_huge && is_first_unit()) {
            populate_undo(run, record);
            return 0;
        }
        if (!is_huge) os_touch(run.start, bytes);
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
    put_back(run, RUN_POPULATED, record);
    count_event(EVENT_POPULATED_SLICES, run.slices);
    return run.slices;
}

size_t reserve_populate(unsigned slices_max) {
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
        (void)atomic_add(&units_begun, 1);
        atomic_set(&missed, 0);
        huge_unit_prefer(run);
        done = populate(run, true);
        (void)atomic_sub(&units_begun, 1);
        huge_units_map_ahead(run);
    }
    (void)atomic_sub_release(&maintained, 1);
    return done;
}

void reserve_set_huge(bool available) {
    atomic_set(&huge, available ? HUGE_AVAILABLE : HUGE_NONE);
}

bool reserve_affords_units_ahead(void) {
    return likely_used_slices() >= RESERVE_AHEAD_FROM;
}

bool reserve_affords_warm(void) {
    size_t used = likely_used_slices();
    return used >= RESERVE_HUGE_FROM && atomic_get(&begun_warm) < used / WARM_SHARE + WARM_FIRST;
}

bool reserve_affords_unknown(size_t slices) {
    size_t most = UNKNOWN_FIRST + live_slices() / UNKNOWN_SHARE;
    if (most > UNKNOWN_MAX) most = UNKNOWN_MAX;
    return !KEEL_SECURE && may_have_huge() && atomic_get(&unknown) + slices <= most &&
           reserve_cap_admits(slices > HUGE_SLICES ? slices : HUGE_SLICES);
}

void reserve_begun_warm(unsigned slices) {
    (void)atomic_add(&begun_warm, slices);
}
void reserve_ended_warm(unsigned slices) {
    (void)atomic_sub(&begun_warm, slices);
}

void reserve_begin_unknown(struct page* page) {
    page->unknown = 1;
    (void)atomic_add(&unknown, page->bytes / SLICE_BYTES);
}
void reserve_end_unknown(struct page* page) {
    if (page->unknown == 0) return;
    page->unknown = 0;
    (void)atomic_sub(&unknown, page->bytes / SLICE_BYTES);
}
void reserve_resize_unknown(struct page* page, size_t bytes) {
    bool counts = page->unknown != 0;
    reserve_end_unknown(page);
    page->bytes = bytes;
    if (counts) reserve_begin_unknown(page);
}

// Warm slices that are scattered serve no run of several slices, so more of them are admitted then.
// Of units under way, other threads will soon have used a half.
static bool admits_unit(unsigned slices) {
    size_t used = likely_used_slices();
    if (partition_now() != 0) return false; // units are of partition 0
    if (used + slices < RESERVE_HUGE_FROM || !may_have_huge()) return false;
    size_t begun = (size_t)atomic_get(&units_begun) * HUGE_SLICES;
    size_t warm_max = used / (slices == 1 ? 8 : 4) + (begun == 0 ? HUGE_SLICES : 0);
    return run_dirty_slices() + begun / 2 <= warm_max && reserve_cap_admits(begun + HUGE_SLICES);
}

// There are no warm slices that fit. True: this thread has populated a unit.
static bool populate_if_behind(unsigned slices) {
    if (!admits_unit(slices)) return false;
    uint64_t most = atomic_get(&units_begun) == 0 ? MISSED_SLICES_MAX : MISSED_BESIDE_MAX;
    uint64_t now = atomic_add(&missed, slices) + slices;
    // Of several threads, the one that sets it back populates.
    if (now < most || !atomic_try_bits(&missed, &now, 0)) return false;
    // In a limited address space a large block cannot use units that are closed.
    bool populated = !window_space_is_limited() && reserve_populate_huge() > 0;
    count_event(EVENT_UNITS, populated);
    return populated;
}

struct run reserve_take(unsigned slices) {
    struct run run = run_allocate_warm(slices);
    return run.start == NULL && populate_if_behind(slices) ? run_allocate_warm(slices) : run;
}

// True if the sum of live and warm memory is above its limit: 1.5 times the recent peak of live
// memory, plus 32 MiB and the target.
// Then cold memory was taken while the warm memory did not fit, and warm memory is discarded before
// its purge delay is over.
static bool above_limit(void) {
    size_t warm = warm_slices();
    if (above_cap()) return true;
    if (warm <= SLACK_SLICES) return false;
    size_t peak = recent_peak();
    return live_slices() + warm > peak + peak / 2 + reserve_target() + SLACK_SLICES;
}

bool reserve_admits_warm(void) {
    record_peak();
    return !above_limit();
}

void reserve_step_large(size_t slices) {
    if (atomic_get(&kept)) return;
    (void)mapping_cache_age(os_clock_ms(), slices * SLICE_BYTES);
    size_t due = reserve_surplus();
    for (unsigned calls = 0; calls < STEP_LARGE_CALLS && slices > 0;) {
        if (due == 0 && !above_limit()) break;
        size_t done = discard(slices < 64 ? (unsigned)slices : 64, &calls);
        if (due > 0) reserve_surplus_done(done > 0 ? done : due);
        if (done == 0) break;
        slices -= done < slices ? done : slices;
        due -= done < due ? done : due;
    }
}

bool reserve_step(void) {
    if (atomic_get(&kept)) return false;
    bool aged = mapping_cache_bytes() > 0 && mapping_cache_age(os_clock_ms(), STEP_UNMAP_BYTES) > 0;
    size_t due = reserve_surplus();
    if (due == 0 && !above_limit()) return aged;
    size_t done = reserve_discard(PURGE_QUANTUM_SLICES);
    count_work(WORK_PURGE_SLICES, done);
    if (due > 0) reserve_surplus_done(done > 0 ? done : due);
    return true;
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

#include "allocator/arena/purge.h"
#include "allocator/arena/page_map.h"
#include "allocator/arena/run.h"
#include "base/atomic.h"
#include "base/counters.h"
#include "base/options.h"
#include "os/memory.h"
#include "os/process.h"

#define SLACK_SLICES ((size_t)512) // 32 MiB

static atomic_bits period_end_ms; // 0: no period has begun
static atomic_bits period_lowest; // lowest dirty count seen in this period
static atomic_bits surplus;       // slices still to be given back

void purge_note(void) {
    size_t dirty = run_dirty_slices();
    if (dirty < atomic_get(&period_lowest)) atomic_set(&period_lowest, dirty);
}

// Closes the period if it is over. Races between threads lose at most a note, which the next period makes up for.
static void period_turn(void) {
    uint64_t now = os_clock_ms();
    uint64_t end = atomic_get(&period_end_ms);
    if (now < end) return;
    if (!atomic_try_bits(&period_end_ms, &end, now + options.purge_delay_ms)) return;
    purge_note();
    atomic_set(&surplus, end == 0 ? 0 : atomic_get(&period_lowest));
    atomic_set(&period_lowest, run_dirty_slices());
}

static size_t purge_quantum(unsigned slices_max) {
    struct dirty_run run = run_take_dirty(slices_max);
    if (run.slices == 0) return 0;
    bool clean = os_discard(run.start, run.slices * SLICE_BYTES);
    run_return(run, clean);
    if (!clean) return 0;
    count_event(EVENT_PURGED_SLICES, run.slices);
    count_work(WORK_PURGE_SLICES, run.slices);
    return run.slices;
}

void purge_step(void) {
    period_turn();
    uint64_t due = atomic_get(&surplus);
    bool above = run_dirty_slices() > run_live_slices() / 2 + SLACK_SLICES;
    if (due == 0 && !above) return;
    size_t done = purge_quantum(PURGE_QUANTUM_SLICES);
    if (due > 0) atomic_set(&surplus, done > 0 && due > done ? due - done : 0);
}

void purge_all(void) {
    // Bounded by what is free now: slices that others free meanwhile are theirs to give back.
    for (size_t left = run_dirty_slices(); left > 0;) {
        size_t done = purge_quantum(SUPERBLOCK_SLICES);
        if (done == 0) break;
        left -= done < left ? done : left;
    }
}

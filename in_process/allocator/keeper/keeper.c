#include "allocator/keeper/keeper.h"
#include "allocator/alloc/alloc.h"
#include "allocator/arena/run.h"
#include "allocator/arena/stock.h"
#include "allocator/heap/batch.h"
#include "base/counters.h"
#include "os/thread.h"

#define DEMAND_TICKS 8u
#define STEPS_MAX 16u      // calls to the system of one kind in one tick
#define POPULATE_SLICES 4u // 256 KiB a call
#define DISCARD_SLICES 16u // 1 MiB a call
#define PARKED_MAX 16u     // heaps looked after in one tick
#define TICK_MIN_MS 1u
#define TICK_PENDING_MS 32u // longest sleep while a surplus may ripen
#define TICK_MAX_MS 1000u
#define REFILLS_BEFORE_START 32u
#define IDLE_TICK_MS 128u // heaps are called idle by comparing over at least this long

enum { STATE_OFF, STATE_STARTING, STATE_RUNNING };
enum { SLEEP_NONE, SLEEP_LONG };

static atomic_state state;
static atomic_state allowed;
static atomic_state sleep_word;
static atomic_bits reserve_min;
static atomic_bits heaps_at_fork; // heaps taken by threads that a fork left behind

static struct {
    uint64_t demand[DEMAND_TICKS];
    unsigned tick;
    uint64_t taken_before;
    uint64_t since_idle_look_ms;
} keeper; // the keeper's own

// How often a thread has come to have a heap.
static uint64_t heaps_taken(void) {
    return atomic_get(&counters.events[EVENT_HEAP_CREATED]) +
           atomic_get(&counters.events[EVENT_HEAP_ADOPTED]);
}

bool keeper_runs(void) {
    return atomic_get(&state) == STATE_RUNNING;
}
void keeper_allow(void) {
    atomic_set(&allowed, 1);
}

// Ends a long sleep: one system call, by whoever is first to find the stock below the reserve.
static void wake(void) {
    uint32_t expected = SLEEP_LONG;
    if (run_dirty_slices() >= stock_reserve()) return;
    if (atomic_try_state(&sleep_word, &expected, SLEEP_NONE)) os_wake(&sleep_word);
}

// Takes note of what was asked for since the last tick. Sets the reserve from the largest of the
// last ticks.
static uint64_t demand_update(void) {
    uint64_t taken = run_narrow_taken();
    uint64_t now = taken - keeper.taken_before;
    keeper.taken_before = taken;
    keeper.demand[keeper.tick++ % DEMAND_TICKS] = now;
    uint64_t peak = 0;
    for (unsigned i = 0; i < DEMAND_TICKS; i++) {
        if (keeper.demand[i] > peak) peak = keeper.demand[i];
    }
    size_t reserve = 2 * peak;
    size_t share = run_live_slices() * 6 / 100;
    if (reserve > share) reserve = share;
    if (reserve > KEEPER_RESERVE_MAX) reserve = KEEPER_RESERVE_MAX;
    if (reserve < KEEPER_RESERVE_MIN) reserve = KEEPER_RESERVE_MIN;
    size_t min = atomic_get(&reserve_min);
    stock_set_reserve(reserve < min ? min : reserve);
    return now;
}

static bool refill_reserve(void) {
    bool worked = false;
    for (unsigned step = 0; step < STEPS_MAX; step++) {
        size_t have = run_dirty_slices();
        size_t want = stock_reserve();
        if (have >= want) break;
        size_t missing = want - have;
        if (stock_populate(missing < POPULATE_SLICES ? (unsigned)missing : POPULATE_SLICES) == 0)
            break;
        worked = true;
    }
    return worked;
}

static bool discard_surplus(void) {
    bool worked = false;
    size_t due = stock_surplus();
    for (unsigned step = 0; step < STEPS_MAX && due > 0; step++) {
        size_t done = stock_discard(due < DISCARD_SLICES ? (unsigned)due : DISCARD_SLICES);
        stock_worked_off(done > 0 ? done : due);
        due = done > 0 && due > done ? due - done : 0;
        worked = true;
    }
    return worked;
}

// Heaps whose thread has asked for nothing for a while do not need the empty slices that they keep.
static void release_of_idle_heaps(void) {
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) {
        uint64_t activity =
            atomic_get(&heap->counts[HEAP_REFILL]) + atomic_get(&heap->counts[HEAP_PAGE_ENDED]);
        if (activity == heap->activity_seen) heap_release_empty(heap);
        heap->activity_seen = activity;
    }
}

static bool tick(uint32_t slept_ms) {
    bool busy = demand_update() > 0;
    busy |= refill_reserve();
    busy |= discard_surplus();
    for (unsigned i = 0; i < PARKED_MAX && reclaim_parked(); i++) busy = true;
    keeper.since_idle_look_ms += slept_ms;
    if (keeper.since_idle_look_ms >= IDLE_TICK_MS) {
        keeper.since_idle_look_ms = 0;
        release_of_idle_heaps();
    }
    return busy;
}

static void keeper_main(void) {
    uint32_t sleep_ms = TICK_MIN_MS;
    for (;;) {
        if (tick(sleep_ms)) {
            sleep_ms = TICK_MIN_MS;
        } else {
            bool pending = run_dirty_slices() > stock_reserve();
            uint32_t longest = pending ? TICK_PENDING_MS : TICK_MAX_MS;
            sleep_ms = sleep_ms * 2 < longest ? sleep_ms * 2 : longest;
        }
        uint32_t sleep = sleep_ms > TICK_PENDING_MS ? SLEEP_LONG : SLEEP_NONE;
        (void)atomic_swap(&sleep_word, sleep);
        // Who drew on the stock since the tick, and came before the word was set, wakes nobody: so
        // look again after setting it.
        if (sleep == SLEEP_LONG && run_narrow_taken() != keeper.taken_before)
            sleep_ms = TICK_MIN_MS;
        else
            os_wait(&sleep_word, sleep, sleep_ms);
    }
}

size_t keeper_warm(size_t bytes) {
    size_t slices = bytes / SLICE_BYTES + (bytes % SLICE_BYTES != 0);
    atomic_set(&reserve_min, slices);
    if (slices > stock_reserve() || !keeper_runs()) stock_set_reserve(slices);
    while (run_dirty_slices() < slices) {
        size_t missing = slices - run_dirty_slices();
        if (stock_populate(missing < 64 ? (unsigned)missing : 64) == 0) break;
    }
    size_t have = run_dirty_slices();
    return have < slices ? have * SLICE_BYTES : bytes;
}

void keeper_thread_idle(void) {
    struct heap* heap = thread_heap;
    if (heap_is_real(heap)) {
        batch_flush(heap);
        for (unsigned i = 0; i < STEPS_MAX && inbox_has_mail(&heap->inbox); i++)
            (void)heap_drain(heap);
    }
    if (keeper_runs()) return;
    (void)reclaim_parked();
    stock_step();
}

bool keeper_start(void) {
    uint32_t expected = STATE_OFF;
    if (options.keeper == KEEPER_NEVER) return false;
    if (!atomic_try_state(&state, &expected, STATE_STARTING)) return expected == STATE_RUNNING;
    keeper.taken_before = run_narrow_taken();
    if (!os_thread_start(keeper_main))
        return false; // stays STARTING: a system that refused once is not asked again
    atomic_set(&state, STATE_RUNNING);
    stock_set_kept(true);
    return true;
}

void keeper_consider(void) {
    uint32_t now = atomic_get(&state);
    if (now == STATE_RUNNING && atomic_get(&sleep_word) == SLEEP_LONG) wake();
    if (KEEL_LIKELY(now != STATE_OFF) || atomic_get(&allowed) == 0) return;
    if (options.keeper == KEEPER_NEVER) return;
    if (options.keeper == KEEPER_AUTO) {
        // Not for threads that hardly allocate, and not from a thread's first calls: they may come
        // at its very end.
        struct heap* heap = thread_heap;
        if (atomic_get(&heap->counts[HEAP_REFILL]) < REFILLS_BEFORE_START) return;
        if (heaps_taken() < atomic_get(&heaps_at_fork) + 2) return;
    }
    (void)keeper_start();
}

void keeper_forget(void) {
    atomic_set(&state, STATE_OFF);
    uint64_t taken = heaps_taken();
    atomic_set(&heaps_at_fork, taken > 0 ? taken - 1 : 0);
    stock_set_kept(false);
}

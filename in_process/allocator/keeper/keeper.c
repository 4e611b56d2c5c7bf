#include "allocator/keeper/keeper.h"
#include "allocator/alloc/alloc.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"
#include "allocator/keeper/headroom.h"
#include "allocator/large/jumbo.h"
#include "allocator/large/large.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/policy.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/confined.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/process.h"
#include "os/thread.h"

#define DEMAND_PERIODS 16u
#define RESERVE_LEAST_SHARE 4u // of what may stay idle: prepared even without demand
#define STEPS_MAX 16u          // calls to the system of one kind in one tick
#define POPULATE_SLICES 4u     // 256 KiB a call
#define KEEPER_UNMAP_BYTES ((size_t)16 << 20)
#define DISCARD_SLICES 16u // 1 MiB a call
#define LOOKS_MAX 256u     // heaps looked at in one tick
#define RECLAIM_STEPS 16u  // for one parked heap in one tick
#define RELIEF_STEPS 128u  // in one tick: 8,192 pages
#define TICK_FAST_US 100u  // taken for the length of a sleep that a thread ended
#define TICK_US 1000u
#define TICK_PENDING_US 32000u // longest sleep while there may be a surplus, or heaps are watched
#define TICK_REALTIME_US 8000u // longest sleep while a realtime thread has a spare
#define TICK_MAX_US 1000000u
#define DEMAND_PERIOD_US 1000u // demand is measured over at least this time
#define CALLS_BEFORE_START 32u // refills of a thread, or its requests for slices
// Slices that a process has live before it gets a keeper, 2 MiB: a smaller one gains little.
// (Programs that soon change their own privileges hold 1.1 to 1.8 MiB by then.)
#define GROWTH_BEFORE_START 32u
#define HEAPS_PERIOD_US 4000u   // minimum time between two looks at the heaps
#define IDLE_MS 128u            // a heap whose thread was not active for this time is idle
#define IDLE_REFILLS 3u         // that an idle thread may make
#define IDLE_REFILLS_BEHIND 16u // the same for a thread whose remote queue is not empty
#define CAP_GUESS_SLICES 256u   // 16 MiB

enum { STATE_OFF, STATE_RUNNING, STATE_REFUSED }; // after a refusal, no further attempt
// Up to TICK_US, TICK_PENDING_US, more. A deaf sleep is not ended by a short reserve, because the
// keeper could not fill it.
enum { SLEEP_NONE, SLEEP_DEAF, SLEEP_SHORT, SLEEP_MEDIUM, SLEEP_LONG };

// What a look at a heap found.
enum look {
    LOOK_DONE,   // nothing is left to do
    LOOK_AGAIN,  // there may be something to do later
    LOOK_WORKED, // there may be more to do at once
};

static atomic_state state;
static atomic_state allowed;
static struct os_thread thread;
static atomic_state sleep_word;
static atomic_bits reserve_min;
static atomic_bits heaps_at_fork; // heaps taken by threads that a fork left behind
static atomic_bits live_at_fork;  // slices, 0 if there was no fork
static atomic_bits missed_seen;   // slices that threads have missed, at the last refill

static struct {
    uint64_t demand[DEMAND_PERIODS];
    unsigned period;
    uint64_t taken_before; // in the last period
    uint64_t since_demand_us;
    uint32_t since_heaps_us;
    bool any_realtime;
    bool cannot_fill;      // the last refill ended early
    unsigned relief_steps; // left in this tick
} keeper;                  // only the keeper touches it

// Number of times that a thread has taken a heap.
static uint64_t heaps_taken(void) {
    return event_total(EVENT_HEAP_CREATED) + event_total(EVENT_HEAP_ADOPTED);
}

bool keeper_runs(void) {
    return atomic_get(&state) == STATE_RUNNING;
}
void keeper_allow(void) {
    atomic_set(&allowed, 1);
}

// Threads have missed warm slices although there are as many as the target says: those do not fit.
static bool misses_matter(void) {
    return run_narrow_missed() != atomic_get(&missed_seen) && policy_admits_unit(1);
}

// True: the reserve should be filled.
static bool reserve_is_short(void) {
    return run_dirty_slices() < policy_target() || misses_matter();
}

// True: at once, because the keeper's next tick may be too late. Waking it is a system call in the
// program's thread, so the reserve may first sink by half of its target.
static bool reserve_is_urgent(void) {
    size_t target = policy_target();
    return run_dirty_slices() < target - target / 2 || misses_matter();
}

// Ends the keeper's sleep if it is needed sooner: one system call, by the first such thread.
static void wake_if_needed(void) {
    uint32_t depth = atomic_get(&sleep_word);
    bool needed = depth >= SLEEP_SHORT && reserve_is_urgent();
    if (!needed || heap_is_realtime(thread_heap)) return;
    if (atomic_try_state(&sleep_word, &depth, SLEEP_NONE)) os_wake(&sleep_word);
}

// A thread needs guarded blocks to be opened or closed soon.
static void wake_for_guarded(void) {
    uint32_t depth = atomic_get(&sleep_word);
    if (depth == SLEEP_NONE || heap_is_realtime(thread_heap)) return;
    if (atomic_try_state(&sleep_word, &depth, SLEEP_NONE)) os_wake(&sleep_word);
}

static size_t reserve_for(uint64_t peak_demand) {
    size_t reserve = 2 * peak_demand;
    size_t most = policy_rest();
    size_t min = atomic_get(&reserve_min);
    if (reserve > most) reserve = most;
    if (reserve < most / RESERVE_LEAST_SHARE) reserve = most / RESERVE_LEAST_SHARE;
    return reserve < min ? min : reserve;
}

// Once a period: records its demand, and sets the target from the maximum of the last periods.
// True: there was demand.
static bool demand_update(uint32_t slept_us) {
    KEEL_ASSERT(run_narrow_taken() >= keeper.taken_before);
    uint64_t taken = run_narrow_taken();
    uint64_t now = taken - keeper.taken_before;
    keeper.since_demand_us += slept_us;
    if (keeper.since_demand_us < DEMAND_PERIOD_US) return now > 0;
    keeper.since_demand_us = 0;
    keeper.taken_before = taken;
    keeper.demand[keeper.period++ % DEMAND_PERIODS] = now;
    uint64_t peak = 0;
    for (unsigned i = 0; i < DEMAND_PERIODS; i++) {
        if (keeper.demand[i] > peak) peak = keeper.demand[i];
    }
    // Near a limit only what the program requested (kl_warm) stays warm.
    bool admitted = headroom_admits(POPULATE_SLICES * SLICE_BYTES);
    policy_set_target(admitted ? reserve_for(peak) : atomic_get(&reserve_min));
    return now > 0;
}

// Populates a unit of 2 MiB if it is no more than what may stay idle.
static size_t populate_admitted(size_t missing) {
    KEEL_ASSERT(missing > 0);
    bool unit = policy_rest() >= HUGE_SLICES && headroom_admits(HUGE_SLICES * SLICE_BYTES);
    size_t done = unit ? reserve_populate_unit(0) : 0;
    if (done > 0) return done;
    unsigned slices = missing < POPULATE_SLICES ? (unsigned)missing : POPULATE_SLICES;
    if (!policy_cap_admits(slices) || !headroom_admits(slices * SLICE_BYTES)) return 0;
    return reserve_populate(slices);
}

static size_t populate_some(size_t missing) {
    KEEL_ASSERT(missing > 0);
    uint64_t refused = event_total(EVENT_POPULATE_REFUSED);
    size_t done = populate_admitted(missing);
    if (done > 0)
        headroom_used(done * SLICE_BYTES);
    else if (event_total(EVENT_POPULATE_REFUSED) != refused)
        headroom_refused();
    return done;
}

// Returns the number of slices populated.
static size_t refill_reserve(void) {
    size_t total = 0;
    keeper.cannot_fill = false;
    for (unsigned step = 0; step < STEPS_MAX && reserve_is_short(); step++) {
        size_t have = run_dirty_slices();
        size_t want = policy_target();
        size_t missed = run_narrow_missed();
        if (missed != atomic_get(&missed_seen)) atomic_set(&missed_seen, missed);
        size_t done = populate_some(want > have ? want - have : POPULATE_SLICES);
        keeper.cannot_fill = done == 0;
        if (done == 0) break;
        total += done;
    }
    return total;
}

static bool discard_surplus(void) {
    bool worked = false;
    size_t due = policy_surplus();
    bool early = due < DISCARD_SLICES && policy_is_above();
    if (early) due = DISCARD_SLICES;
    for (unsigned step = 0; step < STEPS_MAX && due > 0; step++) {
        size_t done = reserve_discard(due < DISCARD_SLICES ? (unsigned)due : DISCARD_SLICES);
        if (early)
            policy_returned_early(done);
        else
            policy_returned(done > 0 ? done : due);
        due = done > 0 && due > done ? due - done : 0;
        worked = true;
    }
    return worked;
}

// Relieves the heap as long as the steps of this tick suffice.
static void relieve(struct heap* heap) {
    KEEL_ASSERT(keeper.relief_steps <= RELIEF_STEPS);
    while (keeper.relief_steps > 0) {
        keeper.relief_steps--;
        if (!heap_relieve(heap, heap->relieved_deeply)) return;
    }
}

// How many refills an idle thread may make. Blocks that wait in the remote queue allow more: each
// refill takes the blocks of a few pages from there, so a thread that wakes regularly but allocates
// little would need a long time for all of them.
static uint32_t idle_refills(const struct heap* heap) {
    const struct remote_queue* queue = &heap->remote_queue;
    if (remote_queue_is_empty(queue)) return IDLE_REFILLS;
    return IDLE_REFILLS_BEHIND + atomic_get(&queue->kept_count) / REMOTE_DRAIN_MAX;
}

static bool is_idle(struct heap* heap, uint64_t now_ms) {
    uint64_t refills = atomic_get(&heap->counts[HEAP_REFILLS]);
    if (refills - heap->refills_seen > idle_refills(heap)) {
        heap->active_ms = now_ms;
        heap->refills_seen = refills;
    }
    return now_ms - heap->active_ms >= IDLE_MS;
}

static enum look look_at_parked(struct heap* heap) {
    KEEL_ASSERT(!heap_is_parked(heap));
    bool worked = false;
    for (unsigned step = 0; step < RECLAIM_STEPS && reclaim_step(heap); step++) worked = true;
    heap_park(heap);
    return worked ? LOOK_WORKED : heap_can_be_reclaimed(heap) ? LOOK_AGAIN : LOOK_DONE;
}

// A heap whose thread has allocated nothing for a while does not need the empty slices that it
// keeps, and will not drain its remote queue soon.
static enum look look_at_held(struct heap* heap, uint64_t now_ms) {
    bool realtime = heap_is_realtime(heap);
    if (realtime) {
        keeper.any_realtime = true;
        (void)heap_fill_spare(heap);
    }
    if (!is_idle(heap, now_ms)) {
        heap->relieved_deeply = false;
        bool waits = heap_has_kept(heap) || !remote_queue_is_empty(&heap->remote_queue);
        return waits || realtime ? LOOK_AGAIN : LOOK_DONE;
    }
    heap_release_kept(heap);
    bool shallow = !heap->relieved_deeply && option_get(OPTION_RESET_DELAY) >= 0;
    if (shallow && now_ms - heap->active_ms >= (uint64_t)option_get(OPTION_RESET_DELAY)) {
        heap->relieved_deeply = true;
        heap_relieve_kept(heap);
        shallow = false;
    }
    if (heap_can_be_relieved(heap)) {
        relieve(heap);
        if (heap_can_be_relieved(heap)) return LOOK_WORKED;
    }
    bool later = shallow && !remote_queue_is_empty(&heap->remote_queue);
    return realtime || later ? LOOK_AGAIN : LOOK_DONE;
}

// True: there may be more to do soon.
static bool look_at(struct heap* heap, uint64_t now_ms) {
    KEEL_ASSERT(atomic_get(&heap->watched) != 0 && ((uintptr_t)heap & HEAP_USER) == 0);
    enum look result = heap_unpark(heap)      ? look_at_parked(heap)
                       : heap_is_parked(heap) ? LOOK_AGAIN // another thread has the pool's lock
                                              : look_at_held(heap, now_ms);
    count_event(EVENT_HEAP_LOOKS, 1);
    watch_finish(heap, result != LOOK_DONE);
    return result == LOOK_WORKED;
}

// Looks at some of the watched heaps. True: there may be more to do soon.
static bool look_after_heaps(uint32_t slept_us) {
    keeper.since_heaps_us += slept_us;
    if (keeper.since_heaps_us < HEAPS_PERIOD_US || watch_is_empty()) return false;
    keeper.since_heaps_us = 0;
    bool worked = false;
    uint64_t now_ms = os_clock_ms();
    struct heap* heap = watch_take(true);
    keeper.any_realtime = false;
    keeper.relief_steps = RELIEF_STEPS;
    for (unsigned looks = 1; heap != NULL; looks++) {
        worked |= look_at(heap, now_ms);
        bool ends = looks == LOOKS_MAX || keeper.relief_steps == 0;
        heap = ends ? NULL : watch_take(false);
    }
    return worked;
}

// Secure flavour. True: some freed large blocks wait for their guards.
static bool guard_large_blocks(void) {
    int64_t delay_ms = option_get(OPTION_RESET_DELAY);
    if (!KEEL_SECURE || delay_ms < 0) return false;
    return large_quarantine_guard(os_clock_ms(), (uint64_t)delay_ms);
}

// Returns the length of the next sleep, in µs.
static uint32_t tick(uint32_t slept_us) {
    KEEL_ASSERT(atomic_get(&sleep_word) <= SLEEP_LONG);
    bool busy = demand_update(slept_us);
    size_t populated = refill_reserve();
    busy |= populated > 0;
    busy |= discard_surplus();
    uint64_t now_ms = policy_is_above() ? UINT64_MAX : os_clock_ms();
    busy |= mapping_cache_age(now_ms, KEEPER_UNMAP_BYTES) > 0;
    busy |= guarded_keep();
    busy |= look_after_heaps(slept_us);
    bool guards = guard_large_blocks();
    if (busy) return TICK_US;
    bool pending = !policy_is_at_rest() || !watch_is_empty() || guarded_is_used() || guards;
    uint32_t longest = pending ? TICK_PENDING_US : TICK_MAX_US;
    if (keeper.any_realtime) longest = TICK_REALTIME_US;
    uint32_t next = slept_us < TICK_US ? TICK_US : slept_us * 2;
    return next < longest ? next : longest;
}

static uint32_t sleep_depth(uint32_t sleep_us) {
    KEEL_ASSERT(sleep_us > 0 && sleep_us <= TICK_MAX_US);
    if (keeper.cannot_fill) return SLEEP_DEAF;
    if (sleep_us > TICK_PENDING_US) return SLEEP_LONG;
    return sleep_us > TICK_US ? SLEEP_MEDIUM : SLEEP_SHORT;
}

// Returns the time until the next tick, as far as the keeper knows it.
static uint32_t keeper_sleep(uint32_t sleep_us) {
    KEEL_ASSERT(sleep_us > 0);
    uint32_t depth = sleep_depth(sleep_us);
    if (depth == SLEEP_DEAF && sleep_us > TICK_PENDING_US) sleep_us = TICK_PENDING_US;
    (void)atomic_swap(&sleep_word, depth);
    // A thread that took slices since the tick, before the word was set, has not woken the keeper:
    // so look again after setting it.
    if (depth >= SLEEP_SHORT && reserve_is_urgent()) return TICK_FAST_US;
    if (guarded_waits() || !keeper_runs()) return TICK_FAST_US;
    os_wait(&sleep_word, depth, sleep_us);
    bool woken = atomic_get(&sleep_word) == SLEEP_NONE; // after a time that is not known
    return woken && sleep_us > TICK_FAST_US ? TICK_FAST_US : sleep_us;
}

static void keeper_main(void) {
    policy_set_huge(os_machine_has_huge_pages());
    uint32_t slept_us = TICK_US;
    // Until now no thread has listed what only the keeper does.
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) heap_watch(heap);
    while (keeper_runs()) slept_us = keeper_sleep(tick(slept_us));
}

size_t keeper_warm(size_t bytes) {
    size_t slices = bytes / SLICE_BYTES + (bytes % SLICE_BYTES != 0);
    atomic_set(&reserve_min, slices);
    policy_set_preferred(slices > 0);
    if (slices > policy_target() || !keeper_runs()) policy_set_target(slices);
    while (run_dirty_slices() < slices) {
        size_t missing = slices - run_dirty_slices();
        bool unit = missing >= HUGE_SLICES && policy_may_have_huge();
        if (unit && reserve_populate_huge() > 0) continue;
        if (reserve_populate(missing < 64 ? (unsigned)missing : 64) == 0) break;
    }
    size_t have = run_dirty_slices();
    return have < slices ? have * SLICE_BYTES : bytes;
}

void keeper_thread_idle(void) {
    struct heap* heap = thread_heap;
    if (heap_is_real(heap)) {
        remote_batch_flush(heap);
        for (unsigned i = 0; i < STEPS_MAX && !remote_queue_is_empty(&heap->remote_queue); i++)
            (void)heap_drain(heap);
        if (heap_is_realtime(heap)) (void)heap_fill_spare(heap);
    }
    if (keeper_runs()) return;
    (void)reclaim_parked();
    (void)reserve_step();
}

// Until the first keeper has read the control group, little stays warm: a process can fill a small
// group before that thread runs. True: this was the first start.
static bool guess_cap(void) {
    static atomic_state guessed;
    if (atomic_swap(&guessed, 1) != 0) return false;
    policy_set_cap(policy_held() + CAP_GUESS_SLICES);
    return true;
}

// False: no keeper runs. May allocate.
static bool start(void) {
    uint32_t expected = STATE_OFF;
    if (os_lock_holds_all) return false; // in the child, keeper_forget would forget it
    if (!os_may_open()) return false;    // a filter may forbid to start threads
    // A child of vfork would take the keeper with it when it ends, or could not end because of it,
    // as a copy whose first function returns: only this thread of it ends then.
    if (atomic_get(&state) == STATE_OFF && os_process_is_guest()) return false;
    if (!atomic_try_state(&state, &expected, STATE_RUNNING)) return expected == STATE_RUNNING;
    keeper.taken_before = run_narrow_taken();
    KEEL_ASSERT(!os_lock_holds_all);
    os_process_mark();
    guarded_set_wake(wake_for_guarded);
    policy_set_keeper(true); // before the start: the thread may end at once
    bool is_first = guess_cap();
    headroom_begin();
    if (os_thread_start(&thread, keeper_main)) return true;
    if (is_first) policy_set_cap(SIZE_MAX);
    policy_set_keeper(false);
    atomic_set_release(&state, STATE_REFUSED);
    return false;
}

bool keeper_start(void) {
    return option_get(OPTION_KEEPER) != KEEPER_NEVER && start();
}

// Not for threads that hardly allocate, and not in a thread's first calls: those may come at its
// end. Large blocks need slices, and no refills.
static bool has_second_thread(void) {
    const struct heap* heap = thread_heap;
    return (atomic_get(&heap->counts[HEAP_REFILLS]) >= CALLS_BEFORE_START ||
            heap->draws >= CALLS_BEFORE_START) &&
           heaps_taken() >= atomic_get(&heaps_at_fork) + 2;
}

static bool has_grown(void) {
    size_t live = run_live_slices() + jumbo_live_bytes() / SLICE_BYTES;
    return live >= atomic_get(&live_at_fork) + GROWTH_BEFORE_START;
}

// A process of one thread gets a keeper only if the program wants one: it may be about to do what
// the system allows to a process of one thread only.
static void start_if_required(void) {
    int64_t when = option_get(OPTION_KEEPER);
    if (when == KEEPER_NEVER || !has_grown()) return;
    if (when == KEEPER_ALWAYS || has_second_thread()) (void)start();
}

void keeper_consider(void) {
    uint32_t now = atomic_get(&state);
    if (now == STATE_RUNNING && KEEL_UNLIKELY(os_process_is_copy())) {
        keeper_forget(); // no handler of fork has done it
        atomic_set(&state, STATE_REFUSED);
        return;
    }
    if (now == STATE_RUNNING) wake_if_needed();
    if (KEEL_LIKELY(now != STATE_OFF) || atomic_get(&allowed) == 0) return;
    start_if_required();
}

bool keeper_thread_set_realtime(size_t spare_bytes) {
    struct heap* heap = heap_acquire();
    if (heap == NULL) return false;
    size_t slices = spare_bytes / SLICE_BYTES + (spare_bytes % SLICE_BYTES != 0);
    if (slices > HEAP_SPARE_MAX) slices = HEAP_SPARE_MAX;
    KEEL_ASSERT(slices <= HEAP_SPARE_MAX);
    atomic_set(&heap->spare_wanted, (uint32_t)slices);
    heap_watch(heap);
    return heap_fill_spare(heap);
}

void keeper_end(void) {
    if (os_process_is_copy()) keeper_forget();
    if (atomic_swap(&state, STATE_REFUSED) != STATE_RUNNING) return;
    (void)atomic_swap(&sleep_word, SLEEP_NONE);
    os_wake(&sleep_word);
    os_thread_join(&thread);
    policy_set_keeper(false);
}

void keeper_forget(void) {
    os_process_record();
    os_process_unmark();
    thread = (struct os_thread){0};
    atomic_set(&state, STATE_OFF);
    uint64_t taken = heaps_taken();
    atomic_set(&heaps_at_fork, taken > 0 ? taken - 1 : 0);
    atomic_set(&live_at_fork, run_live_slices() + jumbo_live_bytes() / SLICE_BYTES);
    reserve_forget();
    if (KEEL_SECURE) large_quarantine_forget();
}

bool keeper_check(void) {
    if (!KEEL_CHECKS) return true;
    if (keeper_runs() != policy_has_keeper() || atomic_get(&state) > STATE_REFUSED) return false;
    if (atomic_get(&sleep_word) > SLEEP_LONG || keeper.relief_steps > RELIEF_STEPS) return false;
    return keeper.taken_before <= run_narrow_taken() && atomic_get(&allowed) <= 1;
}

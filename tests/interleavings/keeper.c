// keeper/keeper.c: a thread that takes slices while too few warm slices are left wakes the keeper,
// and so does one that finds no warm slices that fit.
// The keeper is the real one; its warm slices and its heaps are counts of this scenario, and its
// sleeps have no timeout, so a lost wake-up appears as an endless sleep.
#include "allocator/keeper/keeper.h"
#include "allocator/alloc/alloc.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/watch.h"
#include "allocator/keeper/headroom.h"
#include "allocator/large/jumbo.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "explore.h"
#include "os/call.h"
#include "os/machine.h"
#include "os/process.h"
#include "os/thread.h"
#include <linux/futex.h>

// Below half of its target the reserve is urgent: after one draw, after two, after none.
enum {
    RESERVE = 4,
    RESERVE_OF_TWO = 8,
    RESERVE_WIDE = 16,
    DRAW = 3,
    TICKS_MAX = 12,
    SHORT_US = 32000
};

static atomic_word warm_slices; // slices free and warm
static atomic_word drawn;       // warm slices taken so far
static atomic_word missed;      // slices that were not warm
static size_t target = RESERVE;
static unsigned ticks;
static atomic_state wakes;
static bool keeper_sleeps;
static void (*keeper_body)(void);

// --- the functions of lower layers that keeper.c calls, replaced for this scenario ---

size_t run_dirty_slices(void) {
    return atomic_get(&warm_slices);
}
size_t run_live_slices(void) {
    return 1000;
}
size_t run_narrow_taken(void) {
    return atomic_get(&drawn);
}
size_t run_narrow_missed(void) {
    return atomic_get(&missed);
}
size_t reserve_populate(unsigned slices_max) {
    (void)atomic_add(&warm_slices, slices_max);
    return slices_max;
}
void reserve_forget(void) {}
struct policy policy;
// The target stays what kl_warm demands.
bool policy_may_have_huge(void) {
    return true;
}
size_t policy_rest(void) {
    return target;
}
size_t policy_held(void) {
    return 0;
}
bool policy_cap_admits(size_t slices) {
    (void)slices;
    return true;
}
void policy_set_cap(size_t slices) {
    (void)slices;
}
bool policy_admits_unit(unsigned slices) {
    (void)slices;
    return true;
}
size_t policy_excess(void) {
    return 0;
}
bool policy_is_at_rest(void) {
    return true;
}
size_t policy_surplus(void) {
    return 0;
}
void policy_returned(size_t slices) {
    (void)slices;
}
void policy_returned_early(size_t slices) {
    (void)slices;
}
bool os_machine_has_huge_pages(void) {
    return true;
}
bool headroom_admits(size_t bytes) {
    (void)bytes;
    return true;
}
void headroom_used(size_t bytes) {
    (void)bytes;
}
void headroom_refused(void) {}
void headroom_begin(void) {}
bool guarded_keep(void) {
    return false;
}
bool guarded_waits(void) {
    return false;
}
bool guarded_is_used(void) {
    return false;
}
void guarded_set_wake(void (*wake)(void)) {
    (void)wake;
}
size_t reserve_discard(unsigned slices_max) {
    (void)slices_max;
    return 0;
}
bool reserve_step(void) {
    return false;
}
bool reclaim_parked(void) {
    return false;
}
bool reclaim_step(struct heap* heap) {
    (void)heap;
    return false;
}
bool heap_unpark(struct heap* heap) {
    (void)heap;
    return false;
}
void heap_park(struct heap* heap) {
    (void)heap;
}
bool watch_is_empty(void) {
    return true;
}
struct heap* watch_take(bool begin) {
    (void)begin;
    return NULL;
}
void watch_finish(struct heap* heap, bool again) {
    (void)heap;
    (void)again;
}
void heap_watch(struct heap* heap) {
    (void)heap;
}
bool heap_drain(struct heap* heap) {
    (void)heap;
    return false;
}
void heap_release_kept(struct heap* heap) {
    (void)heap;
}
size_t reserve_populate_huge(void) {
    return 0;
}
size_t reserve_populate_unit(unsigned slices) {
    (void)slices;
    return 0;
}
bool heap_relieve(struct heap* heap, bool deep) {
    (void)deep;
    (void)heap;
    return false;
}
void heap_relieve_kept(struct heap* heap) {
    (void)heap;
}
bool heap_fill_spare(struct heap* heap) {
    (void)heap;
    return true;
}
struct heap* heap_acquire(void) {
    return NULL;
}
void remote_batch_flush(struct heap* heap);
void remote_batch_flush(struct heap* heap) {
    (void)heap;
}
struct heap* heap_first(void) {
    return NULL;
}
const struct heap heap_none;
const struct heap heap_gone;
KEEL_TLS struct heap* thread_heap = (struct heap*)&heap_none;

bool os_thread_start(struct os_thread* thread, void (*run)(void)) {
    (void)thread;
    keeper_body = run;
    return true;
}
void os_thread_join(struct os_thread* thread) {
    (void)thread;
}
void os_process_record(void) {}
bool os_process_is_guest(void) {
    return false;
}
void os_process_mark(void) {}
void os_process_unmark(void) {}
bool os_process_is_copy(void) {
    return false;
}

// Short sleeps end at once; a long sleep ends only when the keeper is woken.
void os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds) {
    if (++ticks == TICKS_MAX) explore_end_thread();
    if (microseconds <= SHORT_US) return;
    keeper_sleeps = true;
    (void)os_call(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected);
    keeper_sleeps = false;
}
void os_wake(atomic_state* word) {
    (void)atomic_add(&wakes, 1);
    (void)os_call(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

// --- the threads ---

static void prepare(void) {
    atomic_set(&warm_slices, target);
    (void)keeper_warm(target * SLICE_BYTES); // the target is at least this
    (void)keeper_start();
}
static void prepare_two(void) {
    target = RESERVE_OF_TWO;
    prepare();
}
static void prepare_wide(void) {
    target = RESERVE_WIDE;
    prepare();
}

static void keep(void) {
    keeper_body();
}
static void draw(void) {
    (void)atomic_sub(&warm_slices, DRAW);
    (void)atomic_add(&drawn, DRAW);
    keeper_consider();
}
static void draw_late(void) {
    keeper_consider();
    (void)atomic_sub(&warm_slices, DRAW);
}
static void miss(void) {
    (void)atomic_add(&missed, 1);
    keeper_consider();
}
static void draw_twice(void) {
    draw();
    draw();
}

// No thread draws any more. The keeper may be asleep only if the reserve is not urgent.
static void check(void) {
    EXPLORE_CHECK(!keeper_sleeps || atomic_get(&warm_slices) >= target - target / 2);
}

// Half of the reserve was left all the time, so no draw was a reason for a system call.
static void check_wide(void) {
    EXPLORE_CHECK(atomic_get(&wakes) == 0);
}

// The keeper may be asleep only if it has populated more since the miss.
static void check_missed(void) {
    EXPLORE_CHECK(!keeper_sleeps || atomic_get(&warm_slices) > RESERVE);
}

static const struct explore_scenario one_draws = {
    .name = "keeper, one thread draws",
    .prepare = prepare,
    .threads = 2,
    .called = {"keeper", "thread"},
    .run = {keep, draw},
    .daemons = 1,
    .check = check,
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario one_draws_twice = {
    .name = "keeper, one thread draws twice",
    .prepare = prepare_two,
    .threads = 2,
    .called = {"keeper", "thread"},
    .run = {keep, draw_twice},
    .daemons = 1,
    .check = check,
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario two_draw = {
    .name = "keeper, two threads draw",
    .prepare = prepare_two,
    .threads = 3,
    .called = {"keeper", "thread", "second thread"},
    .run = {keep, draw, draw},
    .daemons = 1,
    .check = check,
    .preemptions = 2,
};
static const struct explore_scenario one_misses = {
    .name = "keeper, one thread misses a warm slice",
    .prepare = prepare,
    .threads = 2,
    .called = {"keeper", "thread"},
    .run = {keep, miss},
    .daemons = 1,
    .check = check_missed,
    .preemptions = EXPLORE_ALL,
};

TEST(keeper_one_misses) {
    explore_holds(&one_misses);
}
TEST(keeper_one_draws) {
    explore_holds(&one_draws);
}
TEST(keeper_one_draws_twice) {
    explore_holds(&one_draws_twice);
}
TEST(keeper_two_draw) {
    explore_holds(&two_draw);
}
TEST(keeper_two_draw_little) {
    struct explore_scenario little = two_draw;
    little.name = "keeper, two threads draw less than half of the reserve";
    little.prepare = prepare_wide;
    little.check = check_wide;
    explore_holds(&little);
}
// Seeded: the thread that ends the long sleep does not change the word on which the keeper sleeps,
// so a keeper that is about to sleep does so.
TEST(keeper_finds_a_wake_left_out) {
    explore_break("wake_if_needed", "try_state", LEFT_OUT);
    explore_finds(&one_draws, "keeper_sleeps");
}
// Seeded: the same; of two draws, which only together make the reserve urgent.
TEST(keeper_finds_a_wake_left_out_of_two) {
    explore_break("wake_if_needed", "try_state", LEFT_OUT);
    explore_finds(&two_draw, "keeper_sleeps");
}
// Seeded: the miss is not published, so nothing shows the keeper that it should populate more.
TEST(keeper_finds_a_miss_left_out) {
    explore_break("miss", "add", LEFT_OUT);
    explore_finds(&one_misses, "keeper_sleeps");
}
// Seeded: the thread looks before it takes the slice, so neither look sees the draw.
TEST(keeper_finds_a_look_before_the_draw) {
    struct explore_scenario early = one_draws;
    early.run[1] = draw_late;
    explore_finds(&early, "keeper_sleeps");
}

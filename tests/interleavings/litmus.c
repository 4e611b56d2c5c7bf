// Tests of the explorer itself: known small programs have exactly the outcomes that its memory
// model allows, and the reduction loses none.
#include "base/atomic.h"
#include "explore.h"
#include "os/lock.h"

static atomic_bits x;
static atomic_bits y;

// --- store buffering: can both loads miss the other's store? ---
static void store_x_load_y(void) {
    atomic_set(&x, 1);
    (void)atomic_get(&y);
}
static void store_y_load_x(void) {
    atomic_set(&y, 1);
    (void)atomic_get(&x);
}
static void ordered_x_y(void) {
    (void)atomic_or_ordered(&x, 1);
    (void)atomic_get_ordered(&y);
}
static void ordered_y_x(void) {
    (void)atomic_or_ordered(&y, 1);
    (void)atomic_get_ordered(&x);
}

// --- message passing: can the flag be seen without the writes before it? ---
static void send_relaxed(void) {
    atomic_set(&x, 1);
    atomic_set(&y, 1);
}
static void send_released(void) {
    atomic_set(&x, 1);
    atomic_set_release(&y, 1);
}
static void receive_relaxed(void) {
    (void)atomic_get(&y);
    (void)atomic_get(&x);
}
static void receive_acquired(void) {
    (void)atomic_get_acquire(&y);
    (void)atomic_get(&x);
}

// --- two stores, and two threads that read them in opposite order ---
static void store_x(void) {
    atomic_set_release(&x, 1);
}
static void store_y(void) {
    atomic_set_release(&y, 1);
}
static void ordered_x(void) {
    (void)atomic_or_ordered(&x, 1);
}
static void ordered_y(void) {
    (void)atomic_or_ordered(&y, 1);
}
static void look_x_y(void) {
    (void)atomic_get_acquire(&x);
    (void)atomic_get_acquire(&y);
}
static void look_y_x(void) {
    (void)atomic_get_acquire(&y);
    (void)atomic_get_acquire(&x);
}
static void look_ordered_x_y(void) {
    (void)atomic_get_ordered(&x);
    (void)atomic_get_ordered(&y);
}
static void look_ordered_y_x(void) {
    (void)atomic_get_ordered(&y);
    (void)atomic_get_ordered(&x);
}

// --- one location ---
static void look_twice(void) {
    (void)atomic_get(&x);
    (void)atomic_get(&x);
}
static void load_x_store_y(void) {
    if (atomic_get(&x) == 1) atomic_set(&y, 1);
}
static void load_y_store_x(void) {
    (void)atomic_get(&y);
    atomic_set(&x, 1);
}

static unsigned outcomes(const char* name, unsigned weak, unsigned threads, void (*a)(void),
                         void (*b)(void), void (*c)(void), void (*d)(void)) {
    struct explore_scenario scenario = {
        .name = name,
        .threads = threads,
        .called = {"a", "b", "c", "d"},
        .run = {a, b, c, d},
        .preemptions = EXPLORE_ALL,
        .weak = weak,
    };
    return explore_outcomes(&scenario);
}

TEST(litmus_store_buffering_in_order) {
    CHECK_EQUAL(outcomes("store buffering", 0, 2, store_x_load_y, store_y_load_x, NULL, NULL), 3);
}
TEST(litmus_store_buffering_weak) {
    CHECK_EQUAL(outcomes("store buffering, weak", 4, 2, store_x_load_y, store_y_load_x, NULL, NULL),
                4);
}
TEST(litmus_store_buffering_ordered) {
    CHECK_EQUAL(outcomes("store buffering, ordered", 4, 2, ordered_x_y, ordered_y_x, NULL, NULL),
                3);
}
TEST(litmus_message_in_order) {
    CHECK_EQUAL(outcomes("message", 0, 2, send_relaxed, receive_relaxed, NULL, NULL), 3);
}
TEST(litmus_message_weak) {
    CHECK_EQUAL(outcomes("message, weak", 4, 2, send_relaxed, receive_relaxed, NULL, NULL), 4);
}
TEST(litmus_message_released) {
    CHECK_EQUAL(outcomes("message, released", 4, 2, send_released, receive_acquired, NULL, NULL),
                3);
}
TEST(litmus_message_released_but_not_acquired) {
    CHECK_EQUAL(outcomes("message, not acquired", 4, 2, send_released, receive_relaxed, NULL, NULL),
                4);
}
// With acquire loads the two readers may see the stores in opposite orders; with ordered loads that
// one of 16 outcomes is impossible.
TEST(litmus_two_stores_two_views) {
    CHECK_EQUAL(outcomes("two stores", 4, 4, store_x, store_y, look_x_y, look_y_x), 16);
}
TEST(litmus_two_stores_two_views_ordered) {
    CHECK_EQUAL(outcomes("two stores, ordered", 4, 4, ordered_x, ordered_y, look_ordered_x_y,
                         look_ordered_y_x),
                15);
}
// A thread's view of one location never goes back: 00, 01, 11.
TEST(litmus_one_location) {
    CHECK_EQUAL(outcomes("one location", 4, 2, store_x, look_twice, NULL, NULL), 3);
}
// Not modelled: a store that is seen before an earlier load of its thread. C11 allows a fourth
// outcome here.
TEST(litmus_load_buffering_is_not_modelled) {
    CHECK_EQUAL(outcomes("load buffering", 4, 2, load_x_store_y, load_y_store_x, NULL, NULL), 2);
}

// --- the reduction on real code with sleeps and wake-ups ---
static struct os_lock lock;
static void lock_once(void) {
    os_lock_acquire(&lock);
    os_lock_release(&lock);
}
TEST(litmus_lock_reduced) {
    CHECK(outcomes("lock, two threads", 0, 2, lock_once, lock_once, NULL, NULL) > 1);
}
TEST(litmus_lock_of_three_reduced) {
    CHECK(outcomes("lock, three threads", 0, 3, lock_once, lock_once, lock_once, NULL) > 1);
}

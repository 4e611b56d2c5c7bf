// os/lock.[hc]: one holder at a time, the next holder sees its writes, and no thread stays asleep.
#include "os/lock.h"
#include "explore.h"

static struct os_lock lock;
static unsigned guarded;
static unsigned entries[EXPLORE_THREADS_MAX];

static void prepare(void) {
    explore_name(&lock, sizeof lock, "lock");
}

static void enter(void) {
    guarded++; // two holders would race here
    entries[explore_self()]++;
}

static void acquire_once(void) {
    os_lock_acquire(&lock);
    enter();
    os_lock_release(&lock);
}

static void acquire_twice(void) {
    acquire_once();
    acquire_once();
}

static void try_once(void) {
    if (!os_lock_try(&lock)) return;
    enter();
    os_lock_release(&lock);
}

static unsigned entries_sum(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) sum += entries[i];
    return sum;
}

static void check(void) {
    EXPLORE_CHECK(atomic_get(&lock.state) == 0);
    EXPLORE_CHECK(guarded == entries_sum());
}

#define SCENARIO(count, ...)                                                                       \
    .prepare = prepare, .threads = count, .called = {"first", "second", "third", "fourth"},        \
    .run = {__VA_ARGS__}, .check = check, .preemptions = EXPLORE_ALL

static const struct explore_scenario two_twice = {
    .name = "lock, two threads twice", SCENARIO(2, acquire_twice, acquire_twice), .weak = 2};
static const struct explore_scenario three = {.name = "lock, three threads",
                                              SCENARIO(3, acquire_once, acquire_once, acquire_once),
                                              .weak = 1};
static const struct explore_scenario with_try = {.name = "lock, two threads and one that tries",
                                                 SCENARIO(3, acquire_once, acquire_once, try_once),
                                                 .weak = 1};

TEST(lock_two_threads_twice) {
    explore_holds(&two_twice);
}
TEST(lock_three_threads) {
    explore_holds(&three);
}
TEST(lock_two_threads_and_one_that_tries) {
    explore_holds(&with_try);
}

// Seeded: a sleeper's mark is lost between reading and writing, so the holder wakes no thread.
TEST(lock_finds_a_split_exchange_on_release) {
    explore_break("os_lock_release", "swap", SPLIT);
    explore_finds(&two_twice, "sleeps for ever");
}
// Seeded: two threads see the lock free.
TEST(lock_finds_a_split_try) {
    explore_break("os_lock_try", "try_state", SPLIT);
    explore_finds(&two_twice, "race");
}
// Seeded: nothing orders the writes of the previous holder.
TEST(lock_finds_a_weak_try) {
    explore_break("os_lock_try", "try_state", WEAKENED);
    explore_finds(&two_twice, "race");
}
TEST(lock_finds_a_weak_release) {
    explore_break("os_lock_release", "swap", WEAKENED);
    explore_finds(&two_twice, "race");
}
TEST(lock_finds_a_weak_wait) {
    explore_break("os_lock_wait", "swap", WEAKENED);
    explore_finds(&two_twice, "race");
}

// space/window.c: two threads that need the same window, or the first superblock, get one that
// both use.
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "explore.h"

static struct window* found[3];
static char* taken[2];

static void find_one(void) {
    struct window* window = window_for((void*)UINT64_C(0x210000000000));
    EXPLORE_CHECK(window->base == (char*)UINT64_C(0x210000000000));
    found[explore_self()] = window;
}
static void check_window(void) {
    EXPLORE_CHECK(found[0] != NULL && found[0] == found[1]);
    EXPLORE_CHECK(found[0] == window_find((void*)UINT64_C(0x210000000000)));
}

static void check_window_of_three(void) {
    check_window();
    EXPLORE_CHECK(found[2] == found[0]);
}

static void take_one(void) {
    taken[explore_self()] = run_allocate(1).start;
}
static void check_taken(void) {
    EXPLORE_CHECK(taken[0] != NULL && taken[1] != NULL && taken[0] != taken[1]);
    EXPLORE_CHECK(run_live_slices() == 2 && run_check());
    EXPLORE_CHECK(atomic_get(&windows.count) >= 1);
}

static const struct explore_scenario same_window = {
    .name = "windows, two threads create the same one",
    .threads = 2,
    .called = {"first", "second"},
    .run = {find_one, find_one},
    .check = check_window,
    .preemptions = EXPLORE_ALL,
    .weak = 3,
};
static const struct explore_scenario same_window_of_three = {
    .name = "windows, three threads create the same one",
    .threads = 3,
    .called = {"first", "second", "third"},
    .run = {find_one, find_one, find_one},
    .check = check_window_of_three,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};
static const struct explore_scenario first_superblock = {
    .name = "windows, two threads find no memory",
    .threads = 2,
    .called = {"first", "second"},
    .run = {take_one, take_one},
    .check = check_taken,
    .preemptions = 2,
};

// Two superblocks of one window: it is in the list once.
static void list_one(void) {
    EXPLORE_CHECK(window_grow(1));
}
static void check_listed(void) {
    unsigned listed = 0;
    for (size_t i = 0; i < atomic_get(&windows.count); i++) {
        EXPLORE_CHECK(window_at(i) != NULL);
        listed++;
        for (size_t j = 0; j < i; j++) EXPLORE_CHECK(window_at(i) != window_at(j));
    }
    EXPLORE_CHECK(listed == 1);
    EXPLORE_CHECK(run_check());
}
static const struct explore_scenario same_listed = {
    .name = "windows, two threads grow the same one",
    .threads = 2,
    .called = {"first", "second"},
    .run = {list_one, list_one},
    .check = check_listed,
    .preemptions = 2,
};
// The window exists; both map the next piece of it.
static void prepare_window(void) {
    EXPLORE_CHECK(window_grow(1));
}
static void grow_twice(void) {
    EXPLORE_CHECK(window_grow(1) && run_allocate(64).start != NULL);
}
static void check_grown(void) {
    EXPLORE_CHECK(run_live_slices() == 128 && run_check());
    EXPLORE_CHECK(atomic_get(&windows.count) == 1);
}
static const struct explore_scenario next_piece = {
    .name = "windows, two threads map the next piece",
    .threads = 2,
    .called = {"first", "second"},
    .prepare = prepare_window,
    .run = {grow_twice, grow_twice},
    .check = check_grown,
    .preemptions = 2,
};

// Two threads take closed units of the huge zone; the second gives its unit back. While one of them
// maps a group, the other one takes a unit of the next.
static void take_unit(void) {
    struct free_run run = run_take_closed();
    taken[explore_self()] = run.start;
    EXPLORE_CHECK(run.slices == HUGE_SLICES);
    run_return(run, explore_self() == 0 ? RUN_POPULATED : RUN_DISCARDED);
}
static void check_units(void) {
    EXPLORE_CHECK(run_dirty_slices() == HUGE_SLICES && run_check());
    struct free_run again = run_take_closed();
    EXPLORE_CHECK(again.slices == HUGE_SLICES && again.start != taken[0]);
}
static const struct explore_scenario closed_units = {
    .name = "windows, two threads take closed units",
    .threads = 2,
    .called = {"keeps it", "closes it"},
    .prepare = prepare_window,
    .run = {take_unit, take_unit},
    .check = check_units,
    .preemptions = 3,
};
TEST(windows_next_piece) {
    explore_holds(&next_piece);
}
TEST(windows_closed_units) {
    explore_holds(&closed_units);
}
TEST(windows_grown) {
    explore_holds(&same_listed);
}
TEST(windows_same) {
    explore_holds(&same_window);
}
TEST(windows_same_of_three) {
    explore_holds(&same_window_of_three);
}
TEST(windows_first_superblock) {
    explore_holds(&first_superblock);
}
// Seeded: both threads act as the first.
TEST(windows_find_a_split_entry) {
    explore_break("window_make", "try_word", SPLIT);
    explore_finds(&same_window, "");
}
// Seeded: the window is found before its description is complete.
TEST(windows_find_a_weak_entry) {
    explore_break("window_make", "try_word", WEAKENED);
    explore_finds(&same_window, "race");
}

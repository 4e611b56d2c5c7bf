// warm/mapping_cache.c: threads that put and take mappings at the same time never get the same
// memory, and none is lost, also where cached neighbours are joined and mappings are cut.
#include "allocator/space/window.h"
#include "allocator/warm/mapping_cache.h"
#include "explore.h"
#include "os/memory.h"

// Mappings are cut in multiples of this size.
#define UNIT MAPPING_CUT_MIN
#define UNITS 6u

static char* base;
static unsigned holders[UNITS]; // of each unit, outside of the cache

// Two holders of a unit would both write here: a race, or a count of two.
static void hold(struct mapping mapping) {
    size_t first = (size_t)(mapping.start - base) / UNIT;
    for (size_t i = 0; i < mapping.bytes / UNIT; i++) EXPLORE_CHECK(holders[first + i]++ == 0);
}
static void put(unsigned first, unsigned units) {
    for (unsigned i = first; i < first + units; i++) EXPLORE_CHECK(holders[i]-- == 1);
    mapping_cache_put((struct mapping){base + first * UNIT, units * UNIT});
}
static void take(unsigned units) {
    struct mapping mapping = mapping_cache_take(units * UNIT, 1, false);
    if (mapping.start == NULL) return;
    EXPLORE_CHECK(mapping.bytes == units * UNIT);
    hold(mapping);
}

static void put_lower(void) {
    put(0, 2);
}
static void put_middle(void) {
    put(2, 2);
}
static void put_upper(void) {
    put(4, 2);
}
static void take_one(void) {
    take(1);
}
static void put_and_take(void) {
    put(2, 2);
    take(2);
}

// All units are outside of the cache, in a window that is described.
static void prepare_none(void) {
    base = os_map((size_t)4 << 20, (size_t)4 << 20);
    EXPLORE_CHECK(base != NULL && window_for(base) != NULL);
    hold((struct mapping){base, UNITS * UNIT});
}
static void prepare_upper(void) {
    prepare_none();
    put_upper();
}
static void prepare_two(void) {
    prepare_upper();
    put_lower();
}

static void check(void) {
    size_t outside = 0;
    for (unsigned i = 0; i < UNITS; i++) outside += holders[i];
    EXPLORE_CHECK(mapping_cache_bytes() == (UNITS - outside) * UNIT);
    for (unsigned i = 0; i < UNITS; i++) take(1);
    for (unsigned i = 0; i < UNITS; i++) EXPLORE_CHECK(holders[i] == 1);
    EXPLORE_CHECK(mapping_cache_bytes() == 0);
}

static const struct explore_scenario joins = {
    .name = "mappings, two threads put neighbours of a cached one",
    .threads = 2,
    .called = {"lower", "middle"},
    .prepare = prepare_upper,
    .run = {put_lower, put_middle},
    .check = check,
    .preemptions = EXPLORE_ALL,
    .weak = 2,
};
static const struct explore_scenario takes = {
    .name = "mappings, two threads take, and one puts the mapping between the cached ones",
    .threads = 3,
    .called = {"first", "second", "puts"},
    .prepare = prepare_two,
    .run = {take_one, take_one, put_middle},
    .check = check,
    .preemptions = 2,
    .weak = 1,
};
static const struct explore_scenario all = {
    .name = "mappings, three threads put neighbours, one takes again",
    .threads = 3,
    .called = {"lower", "middle", "upper"},
    .prepare = prepare_none,
    .run = {put_lower, put_and_take, put_upper},
    .check = check,
    .preemptions = 2,
    .weak = 1,
};

TEST(mappings_joined) {
    explore_holds(&joins);
}
TEST(mappings_taken) {
    explore_holds(&takes);
}
TEST(mappings_of_three_threads) {
    explore_holds(&all);
}
// Seeded: two threads take the mapping of one place.
TEST(mappings_find_a_split_take) {
    explore_break("place_take", "try_ordered", SPLIT);
    explore_finds(&takes, "");
}
// Seeded: two threads fill one place.
TEST(mappings_find_a_split_fill) {
    explore_break("place_fill", "try_ordered", SPLIT);
    explore_finds(&joins, "");
}
// Seeded: a mapping is found before its size is written, or is in no set of places.
TEST(mappings_find_a_weak_fill) {
    explore_break("place_fill", "try_ordered", WEAKENED);
    explore_finds(&takes, "");
}

// space/packed.c: no two blocks overlap, a slice is released exactly when its last user leaves,
// and when no thread is active all room is found.
#include "allocator/space/packed.h"
#include "explore.h"

#define PART (SLICE_BYTES / 4) // blocks begin and end at multiples, so it is enough to count these
#define PARTS_MAX 32u

static struct window* window;
static char* base; // the only slices that are not taken from the start begin here
static unsigned slices;
static unsigned holders[PARTS_MAX];

struct placed {
    char* start;
    unsigned parts;
};
static struct placed first;
static struct placed second;

static void hold(struct placed block) {
    size_t part = (size_t)(block.start - base) / PART;
    for (unsigned i = 0; i < block.parts; i++) EXPLORE_CHECK(holders[part + i]++ == 0);
}
static void release(struct placed block) {
    size_t part = (size_t)(block.start - base) / PART;
    for (unsigned i = 0; i < block.parts; i++) EXPLORE_CHECK(holders[part + i]-- == 1);
    packed_release(block.start, block.parts * PART);
}
static struct placed take(unsigned parts) {
    struct placed block = {packed_allocate(parts * PART).start, parts};
    if (block.start != NULL) hold(block);
    return block;
}

// One superblock, of which the last `count` slices are free.
static void prepare_slices(unsigned count) {
    char* start = run_allocate(64).start;
    window = window_find(start);
    slices = count;
    base = start + (64 - count) * SLICE_BYTES;
    run_release(base, count);
    explore_refuse_memory();
}
static void prepare_one(void) { // one block of 5 parts; 3 slices: 7 parts are left
    prepare_slices(3);
    first = take(5);
}
static void prepare_two(void) { // two blocks of 5 parts, adjacent
    prepare_slices(4);
    first = take(5);
    second = take(5);
    EXPLORE_CHECK(second.start == first.start + 5 * PART);
}
static void prepare_gap(void) { // a gap of 5 parts between two blocks
    prepare_slices(4);
    first = take(5);
    struct placed between = take(5);
    second = take(6);
    release(between);
}

static void check(void) {
    size_t slice = (size_t)(base - window->base) / SLICE_BYTES;
    for (unsigned i = 0; i < slices; i++, slice++) {
        unsigned held = 0;
        for (unsigned part = 0; part < 4; part++) held += holders[4 * i + part];
        uint64_t free = atomic_get(&window->superblocks[slice / 64].free);
        EXPLORE_CHECK((free >> (slice % 64) & 1) == (held == 0));
        uint64_t shared = atomic_get(&page_remote(page_of(base + i * SLICE_BYTES))->shared);
        EXPLORE_CHECK(held != 0 || shared == 0);
    }
    EXPLORE_CHECK(run_check());
}

// --- Threads ---

static void take_5(void) {
    (void)take(5);
}
static void take_6(void) {
    (void)take(6);
}
static void take_and_release_5(void) {
    struct placed block = take(5);
    if (block.start != NULL) release(block);
}
static void release_first(void) {
    release(first);
}
static void release_second(void) {
    release(second);
}
static void discard(void) {
    struct free_run run = run_take_dirty(4);
    if (run.slices != 0) run_return(run, RUN_DISCARDED);
}

#define THREADS_2(a, b) .threads = 2, .called = {#a, #b}, .run = {a, b}, .check = check
#define THREADS_3(a, b, c) .threads = 3, .called = {#a, #b, #c}, .run = {a, b, c}, .check = check

static const struct explore_scenario joins = {.name =
                                                  "packed, one joins a slice that its user leaves",
                                              .prepare = prepare_one,
                                              THREADS_2(take_5, release_first),
                                              .preemptions = EXPLORE_ALL,
                                              .weak = 1};
static const struct explore_scenario takers = {.name = "packed, two for the same room",
                                               .prepare = prepare_one,
                                               THREADS_2(take_5, take_6),
                                               .preemptions = EXPLORE_ALL};
static const struct explore_scenario leavers = {.name = "packed, both users leave a slice",
                                                .prepare = prepare_two,
                                                THREADS_2(release_first, release_second),
                                                .preemptions = EXPLORE_ALL,
                                                .weak = 1};
static const struct explore_scenario gap = {.name =
                                                "packed, one takes a gap whose neighbour leaves",
                                            .prepare = prepare_gap,
                                            THREADS_2(take_5, release_second),
                                            .preemptions = EXPLORE_ALL,
                                            .weak = 1};
static const struct explore_scenario neighbours = {
    .name = "packed, one takes a gap while both neighbours leave",
    .prepare = prepare_gap,
    THREADS_3(take_5, release_first, release_second),
    .preemptions = 2};
static const struct explore_scenario rivals = {.name =
                                                   "packed, two for a gap whose neighbour leaves",
                                               .prepare = prepare_gap,
                                               THREADS_3(take_and_release_5, take_5, release_first),
                                               .preemptions = 2};
static const struct explore_scenario discards = {
    .name = "packed, discard while one joins and its neighbour leaves",
    .prepare = prepare_one,
    THREADS_3(take_5, release_first, discard),
    .preemptions = 2};

TEST(packed_joins) {
    explore_holds(&joins);
}
TEST(packed_takers) {
    explore_holds(&takers);
}
TEST(packed_leavers) {
    explore_holds(&leavers);
}
TEST(packed_gap) {
    explore_holds(&gap);
}
TEST(packed_neighbours) {
    explore_holds(&neighbours);
}
TEST(packed_rivals) {
    explore_holds(&rivals);
}
TEST(packed_discards) {
    explore_holds(&discards);
}

// The explorer finds what these operations are for.
TEST(packed_join_split) {
    explore_break("share_join", "try_ordered", SPLIT);
    explore_finds(&joins, "");
}
TEST(packed_leave_split) {
    explore_break("share_leave", "try_ordered", SPLIT);
    explore_finds(&leavers, "");
}

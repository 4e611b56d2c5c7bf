// space/run.c, window.c, index_set.h: no slice is allocated twice, none is lost, and when no
// thread is active the sets and the counts are exact.
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "base/bits.h"
#include "explore.h"

static struct window* window;
static unsigned first_index;       // the superblock that the scenarios use
static unsigned holders[64];       // of each slice of it
static unsigned other_holders[64]; // of those of another superblock
static char* base;

static unsigned* holder_of(const char* start) {
    size_t slice = (size_t)(start - window->base) / SLICE_BYTES;
    return slice / 64 == first_index ? &holders[slice % 64] : &other_holders[slice % 64];
}

// Two holders of a slice would both write here: a race, or a count of two.
static void hold(const char* start, unsigned slices) {
    for (unsigned i = 0; i < slices; i++)
        EXPLORE_CHECK((*holder_of(start + i * SLICE_BYTES))++ == 0);
}
static void release_page(const char* start, unsigned slices) {
    for (unsigned i = 0; i < slices; i++)
        EXPLORE_CHECK((*holder_of(start + i * SLICE_BYTES))-- == 1);
}

static char* take(unsigned slices) {
    struct run run = run_allocate(slices);
    if (run.start != NULL) hold(run.start, slices);
    return run.start;
}
static void give(char* start, unsigned slices) {
    if (start == NULL) return;
    release_page(start, slices);
    run_release(start, slices);
}

// Searches make a superblock leave the sets to which it no longer belongs.
static void check_free(unsigned left) {
    for (unsigned slices = left + 1; slices <= 64; slices++)
        EXPLORE_CHECK(run_allocate(slices).start == NULL);
    if (left == 0) EXPLORE_CHECK(run_take_dirty(1).slices == 0);
}

// One superblock of which only the last `left` slices are free, all of them touched if `warm`.
static void prepare_left(unsigned left, bool warm) {
    base = run_allocate(64).start;
    window = window_find(base);
    first_index = (unsigned)((size_t)(base - window->base) / SUPERBLOCK_BYTES);
    explore_name(&window->superblocks[first_index], sizeof window->superblocks[0], "superblock");
    run_release(base, 64);
    hold(run_allocate(64).start, 64 - left); // touched, and in the set of the dirty
    if (left > 0) run_release(base + (64 - left) * SLICE_BYTES, left);
    if (!warm) run_return(run_take_dirty(left), RUN_DISCARDED);
    explore_refuse_memory();
}
static void prepare_1(void) {
    prepare_left(1, true);
    check_free(1);
}
static void prepare_2(void) {
    prepare_left(2, true);
    check_free(2);
}
static void prepare_2_cold(void) {
    prepare_left(2, false);
    check_free(2);
}
static void prepare_4(void) {
    prepare_left(4, true);
    check_free(4);
}
// A second superblock in the same word of the sets, without free slices and in no set.
static char* other;
static void prepare_other(void) {
    other = run_allocate(64).start;
    prepare_left(0, true);
    hold(other, 64);
    check_free(0);
    run_release(base, 64);
    EXPLORE_CHECK(run_allocate(64).start == base); // in all sets again, where it is stale
    EXPLORE_CHECK(first_index / 64 == (size_t)(other - window->base) / SUPERBLOCK_BYTES / 64);
}
// Two adjacent superblocks: the last slice of the lower and the first two of the upper are free.
static void prepare_seam(void) {
    (void)run_allocate(64); // the first is separate, since its window's metadata is mapped after it
    other = run_allocate(64).start;
    char* upper = run_allocate(64).start;
    EXPLORE_CHECK(upper == other + SUPERBLOCK_BYTES);
    run_release(other, 64);
    prepare_left(1, true);
    EXPLORE_CHECK(base == other);
    hold(upper + 2 * SLICE_BYTES, 62);
    run_release(upper, 2);
    for (unsigned slices = 3; slices <= 64; slices++)
        EXPLORE_CHECK(run_allocate(slices).start == NULL);
}
static void prepare_none(void) {
    prepare_left(0, true);
    check_free(0);
}
static void prepare_stale(void) { // nothing is free, but the sets are stale
    prepare_left(0, true);
}

// A search finds a superblock of a set only if the set's summary includes it.
static bool summaries_hold(void) {
    for (unsigned i = 0; i < WINDOW_SETS; i++) {
        struct index_set* set = window_set(window, i);
        for (unsigned word = 0; word < WINDOW_SUPERBLOCKS / 64; word++) {
            if (atomic_get(&set->words[word]) != 0 && (atomic_get(&set->summary) >> word & 1) == 0)
                return false;
        }
    }
    return true;
}

static bool seam_is_used;
static void check_above_seam(void) {
    uint64_t free = atomic_get(&window->superblocks[first_index + 1].free);
    for (unsigned i = 0; i < 64; i++) EXPLORE_CHECK(other_holders[i] + (free >> i & 1) == 1);
}

static void check(void) {
    unsigned count = 0;
    uint64_t free = atomic_get(&window->superblocks[first_index].free);
    for (unsigned i = 0; i < 64; i++) {
        EXPLORE_CHECK(holders[i] + (free >> i & 1) == 1);
        count += holders[i];
    }
    if (seam_is_used) check_above_seam();
    EXPLORE_CHECK(run_check());
    EXPLORE_CHECK(summaries_hold());
    EXPLORE_CHECK(count <= run_live_slices());
}

// --- threads ---

static void take_1_give_1(void) {
    give(take(1), 1);
}
static void give_other(void) {
    give(other, 1);
}
static void take_1(void) {
    (void)take(1);
}
static void give_first(void) {
    give(base, 1);
}
static void give_second(void) {
    give(base + SLICE_BYTES, 1);
}
static void extend_into_last(void) {
    char* start = base + 59 * SLICE_BYTES;
    if (run_extend(start, 1, 3)) hold(start + SLICE_BYTES, 2);
}
static void extend_over_seam(void) {
    char* start = base + 62 * SLICE_BYTES;
    if (run_extend(start, 1, 3)) hold(start + SLICE_BYTES, 2);
}
static void give_empty(void) {
    release_page(base, 1);
    run_release_empty(base, 1);
}
static void discard(void) {
    struct free_run run = run_take_dirty(4);
    if (run.slices == 0) return;
    hold(run.start, run.slices);
    release_page(run.start, run.slices);
    run_return(run, RUN_DISCARDED);
}
static void populate(void) {
    struct free_run run = run_take_cold(4);
    if (run.slices == 0) return;
    hold(run.start, run.slices);
    release_page(run.start, run.slices);
    run_return(run, RUN_POPULATED);
}

#define THREADS_2(a, b) .threads = 2, .called = {#a, #b}, .run = {a, b}, .check = check
#define THREADS_3(a, b, c) .threads = 3, .called = {#a, #b, #c}, .run = {a, b, c}, .check = check

static const struct explore_scenario takers = {.name = "slices, two take and release the last two",
                                               .prepare = prepare_2,
                                               THREADS_2(take_1_give_1, take_1_give_1),
                                               .preemptions = EXPLORE_ALL,
                                               .weak = 1};
static const struct explore_scenario giver_and_taker = {
    .name = "slices, one releases while one takes the last",
    .prepare = prepare_1,
    THREADS_2(take_1, give_first),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario givers = {.name = "slices, two release into a full superblock",
                                               .prepare = prepare_none,
                                               THREADS_2(give_first, give_second),
                                               .preemptions = EXPLORE_ALL,
                                               .weak = 3};
static const struct explore_scenario unfiles = {.name =
                                                    "slices, one releases while one corrects sets",
                                                .prepare = prepare_stale,
                                                THREADS_2(take_1, give_first),
                                                .preemptions = EXPLORE_ALL,
                                                .weak = 3};
static const struct explore_scenario cleans = {
    .name = "slices, one releases while discard corrects the set",
    .prepare = prepare_stale,
    THREADS_2(discard, give_first),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario corrections = {
    .name = "slices, two correct the sets while one releases",
    .prepare = prepare_stale,
    THREADS_3(take_1, discard, give_first),
    .preemptions = 2};
static const struct explore_scenario two_superblocks = {
    .name = "slices, one releases beside a superblock that is taken out of the sets",
    .prepare = prepare_other,
    THREADS_2(take_1, give_other),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario discards = {.name = "slices, discard while one releases",
                                                 .prepare = prepare_1,
                                                 THREADS_2(discard, give_first),
                                                 .preemptions = EXPLORE_ALL,
                                                 .weak = 3};
static const struct explore_scenario populates = {.name = "slices, populate while one takes",
                                                  .prepare = prepare_2_cold,
                                                  THREADS_2(populate, take_1_give_1),
                                                  .preemptions = EXPLORE_ALL,
                                                  .weak = 1};
static const struct explore_scenario extends = {.name = "slices, extension, discard and a taker",
                                                .prepare = prepare_4,
                                                THREADS_3(extend_into_last, discard, take_1),
                                                .preemptions = EXPLORE_ALL};
static const struct explore_scenario extends_beside_taker = {.name =
                                                                 "slices, extension beside a taker",
                                                             .prepare = prepare_4,
                                                             THREADS_2(extend_into_last, take_1),
                                                             .preemptions = EXPLORE_ALL,
                                                             .weak = 3};
static const struct explore_scenario extends_beside_discard = {
    .name = "slices, extension beside discard",
    .prepare = prepare_4,
    THREADS_2(extend_into_last, discard),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario extends_over_seam = {
    .name = "slices, extension into the next superblock beside a taker",
    .prepare = prepare_seam,
    THREADS_2(extend_over_seam, take_1),
    .preemptions = EXPLORE_ALL,
    .weak = 1};
static const struct explore_scenario extends_over_seam_beside_discard = {
    .name = "slices, extension into the next superblock beside discard",
    .prepare = prepare_seam,
    THREADS_2(extend_over_seam, discard),
    .preemptions = EXPLORE_ALL,
    .weak = 1};
static const struct explore_scenario gives_empty = {
    .name = "slices, one releases slices without memory beside a taker",
    .prepare = prepare_1,
    THREADS_2(take_1_give_1, give_empty),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario gives_empty_beside_discard = {
    .name = "slices, one releases slices without memory beside discard",
    .prepare = prepare_1,
    THREADS_2(discard, give_empty),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario taker_beside_discard = {
    .name = "slices, discard beside one that takes and releases",
    .prepare = prepare_2,
    THREADS_2(discard, take_1_give_1),
    .preemptions = EXPLORE_ALL,
    .weak = 3};
static const struct explore_scenario all_three = {.name = "slices, discard, a taker and a releaser",
                                                  .prepare = prepare_2,
                                                  THREADS_3(discard, take_1, give_first),
                                                  .preemptions = EXPLORE_ALL,
                                                  .weak = 0};
static const struct explore_scenario all_three_again = {
    .name = "slices, discard, one that takes and releases, and a releaser",
    .prepare = prepare_2,
    THREADS_3(discard, take_1_give_1, give_first),
    .preemptions = 3};
static const struct explore_scenario three_takers = {.name = "slices, three for the last two",
                                                     .prepare = prepare_2,
                                                     THREADS_3(take_1, take_1, give_first),
                                                     .preemptions = EXPLORE_ALL,
                                                     .weak = 1};

TEST(slices_takers) {
    explore_holds(&takers);
}
TEST(slices_giver_and_taker) {
    explore_holds(&giver_and_taker);
}
TEST(slices_unfiles) {
    explore_holds(&unfiles);
}
TEST(slices_cleans) {
    explore_holds(&cleans);
}
TEST(slices_corrections) {
    explore_holds(&corrections);
}
TEST(slices_two_superblocks) {
    explore_holds(&two_superblocks);
}
TEST(slices_givers) {
    explore_holds(&givers);
}
TEST(slices_discards) {
    explore_holds(&discards);
}
TEST(slices_populates) {
    explore_holds(&populates);
}
TEST(slices_extends) {
    explore_holds(&extends);
}
TEST(slices_extends_beside_taker) {
    explore_holds(&extends_beside_taker);
}
TEST(slices_extends_beside_discard) {
    explore_holds(&extends_beside_discard);
}
TEST(slices_extends_over_seam) {
    seam_is_used = true;
    explore_holds(&extends_over_seam);
}
TEST(slices_extends_over_seam_beside_discard) {
    seam_is_used = true;
    explore_holds(&extends_over_seam_beside_discard);
}
TEST(slices_gives_empty) {
    explore_holds(&gives_empty);
}
TEST(slices_gives_empty_beside_discard) {
    explore_holds(&gives_empty_beside_discard);
}
TEST(slices_taker_beside_discard) {
    explore_holds(&taker_beside_discard);
}
TEST(slices_all_three) {
    explore_holds(&all_three);
}
TEST(slices_all_three_again) {
    explore_holds(&all_three_again);
}
TEST(slices_three_takers) {
    explore_holds(&three_takers);
}

// Seeded: two threads take the same slice.
TEST(slices_find_a_split_take) {
    explore_break("superblock_take", "try_bits", SPLIT);
    explore_finds(&takers, "");
}
// Seeded: a slice that is released between reading and writing is lost.
TEST(slices_find_a_split_give) {
    explore_break("slices_give", "or_ordered", SPLIT);
    explore_finds(&givers, "");
}
// Seeded: a thread that removes a superblock from a set does not check again.
TEST(slices_find_a_missing_second_check_of_the_superblock) {
    explore_break("superblock_unfile", "get_ordered", LEFT_OUT);
    explore_finds(&unfiles, "run_check");
}
TEST(slices_find_a_missing_second_check_of_the_dirty) {
    explore_break("superblock_is_dirty", "get_ordered", LEFT_OUT);
    explore_finds(&cleans, "run_check");
}
TEST(slices_find_a_missing_second_check_of_the_set) {
    explore_break("index_set_remove", "get_ordered", LEFT_OUT);
    explore_finds(&two_superblocks, "summaries");
}
// Seeded: two threads extend into, or discard, the same slices.
TEST(slices_find_a_split_extension) {
    explore_break("part_take", "try_bits", SPLIT);
    explore_finds(&extends, "");
}
TEST(slices_find_a_split_discard) {
    explore_break("superblock_take_free", "try_bits", SPLIT);
    explore_finds(&extends, "");
}
// Seeded: the same across the end of a superblock.
TEST(slices_find_a_split_extension_over_the_seam) {
    seam_is_used = true;
    explore_break("part_take", "try_bits", SPLIT);
    explore_finds(&extends_over_seam, "");
}
// Seeded: the next holder's writes are not ordered after the previous holder's.
TEST(slices_find_a_weak_give) {
    explore_break("slices_give", "or_ordered", WEAKENED);
    explore_finds(&takers, "race");
}

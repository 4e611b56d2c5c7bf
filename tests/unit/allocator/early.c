// The first blocks of a process, of which it is not known whether the program will fill them: they
// occupy huge pages within a budget.
#include "allocator/slices/fresh.h"
#include "allocator/slices/huge_unit.h"
#include "allocator/slices/page_map.h"
#include "allocator/slices/reserve.h"
#include "allocator/slices/run.h"
#include "allocator/slices/window.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "faults.h"
#include "keel/keel.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)

static char* take(size_t bytes) {
    char* block = kl_malloc(bytes);
    CHECK(block != NULL);
    return block;
}

// Before: 2,048 page faults.
static void test_first_blocks_take_few_faults(void) {
    enum { COUNT = 4 };
    char* blocks[COUNT];
    long before = faults();
    for (unsigned i = 0; i < COUNT; i++) memset(blocks[i] = take(2 * MIB), 1, 2 * MIB);
    if (os_machine_has_huge_pages()) CHECK(faults() - before < 200);
    for (unsigned i = 0; i < COUNT; i++) kl_free(blocks[i]);
    kl_collect(true);
    reserve_discard_all();
}

// While little is live, the budget is UNKNOWN_FIRST slices.
static bool budget_is_whole(void) {
    CHECK(run_live_slices() < RESERVE_HUGE_FROM);
    return reserve_affords_unknown(UNKNOWN_FIRST);
}

static void test_blocks_count_until_they_end(void) {
    static const size_t sizes[] = {512 * KIB, MIB, 2 * MIB, 3 * MIB, 6 * MIB};
    CHECK(budget_is_whole());
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        reserve_discard_all(); // no block of warm slices, or of a cached mapping
        char* block = take(sizes[i]);
        CHECK(page_of(block)->unknown == 1);
        kl_free(block);
        kl_collect(true); // the heap keeps no slices
        CHECK(budget_is_whole());
    }
}

static void test_resized_blocks_count(void) {
    static const size_t sizes[][2] = {{MIB, MIB / 2}, {6 * MIB, 12 * MIB}, {6 * MIB, 5 * MIB}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        reserve_discard_all();
        char* block = take(sizes[i][0]);
        CHECK(page_of(block)->unknown == 1);
        CHECK((block = kl_realloc(block, sizes[i][1])) != NULL);
        CHECK(page_of(block)->unknown == 1 && page_of(block)->bytes == sizes[i][1]);
        kl_free(block);
        kl_collect(true);
        CHECK(budget_is_whole());
    }
}

// 64 MiB in blocks that the program may never touch.
static void test_budget_is_bounded(void) {
    enum { COUNT = 64 };
    static const size_t sizes[] = {MIB, 3 * MIB};
    for (unsigned s = 0; s < 2; s++) {
        char* blocks[COUNT];
        size_t charged = 0;
        reserve_discard_all();
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = take(sizes[s]);
            if (page_of(blocks[i])->unknown != 0)
                charged += page_of(blocks[i])->bytes / SLICE_BYTES;
        }
        CHECK(charged >= UNKNOWN_FIRST);
        CHECK(charged <= UNKNOWN_MAX);
        for (unsigned i = 0; i < COUNT; i++) kl_free(blocks[i]);
        kl_collect(true);
        CHECK(budget_is_whole());
    }
}

// A block that is not filled ends it; one that is filled begins it again.
static void test_sparse_block_ends_it(void) {
    reserve_discard_all();
    fresh_expect_looks();
    char* sparse = take(4 * MIB);
    CHECK(fresh_affords_unknown(4 * MIB));
    (void)fresh_look(os_clock_ms());
    (void)fresh_look(os_clock_ms() + FRESH_LOOK_MS);
    CHECK(!fresh_affords_unknown(4 * MIB));
    char* filled = take(4 * MIB);
    CHECK(page_of(filled)->unknown == 0);
    memset(filled, 1, 4 * MIB);
    (void)fresh_look(os_clock_ms());
    CHECK(fresh_affords_unknown(4 * MIB) || fresh_is_expected(4 * MIB));
    kl_free(sparse);
    kl_free(filled);
    fresh_forget();
    reserve_discard_all();
}

// Of blocks with huge pages, a few touches make all resident: the next one is a probe.
static void test_sparse_blocks_are_found(void) {
    enum { COUNT = 20 };
    char* blocks[COUNT];
    unsigned huge = 0;
    reserve_discard_all();
    fresh_expect_looks();
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = take(6 * MIB);
        for (size_t at = 0; at < 6 * MIB; at += MIB) blocks[i][at] = 1;
        huge += os_page_is_resident(blocks[i] + 3 * MIB + MIB / 2);
        (void)fresh_look(os_clock_ms());
        (void)fresh_look(os_clock_ms() + FRESH_LOOK_MS);
    }
    CHECK(!fresh_is_seen() && !fresh_is_unknown() && huge <= 3);
    for (unsigned i = 0; i < COUNT; i++) kl_free(blocks[i]);
    reserve_discard_all();
    CHECK(budget_is_whole());
    memset(blocks[0] = take(6 * MIB), 1, 6 * MIB); // one that is filled ends the doubt
    (void)fresh_look(os_clock_ms());
    fresh_forget();
    CHECK(fresh_is_unknown());
    kl_free(blocks[0]);
    reserve_discard_all();
}

// What is left of a unit in a small process would be needed again.
static void test_rest_of_unit_is_no_surplus(void) {
    option_set(OPTION_RESET_DELAY, 1);
    char* live = take(MIB); // a unit
    CHECK(run_live_slices() >= RESERVE_HUGE_FROM && run_dirty_slices() >= HUGE_SLICES / 2);
    size_t warm = run_dirty_slices();
    for (unsigned period = 0; period < 4; period++) {
        struct timespec time = {0, 9 * 1000 * 1000}; // the clock's steps are up to 4 ms
        (void)nanosleep(&time, NULL);
        CHECK(reserve_surplus() == 0);
        (void)reserve_step();
    }
    CHECK(run_dirty_slices() == warm);
    kl_free(live);
    kl_collect(true);
    option_set(OPTION_RESET_DELAY, 500);
}

// Threads that need many units at once do not wait for one that maps the next group.
static void test_next_group_is_mapped_ahead(void) {
    struct free_run runs[2 * GROUP_UNITS];
    unsigned seen = 0;
    for (unsigned i = 0; i < 2 * GROUP_UNITS; i++) {
        runs[i] = run_take_closed();
        CHECK(runs[i].slices == HUGE_SLICES);
        struct window* window = window_find(runs[i].start);
        size_t bytes = (size_t)(runs[i].start - window->base) - WINDOW_BYTES / 2;
        unsigned group = (unsigned)(bytes / SLICE_BYTES / HUGE_SLICES / GROUP_UNITS) + 1;
        huge_units_map_ahead(runs[i]);
        bool begun = (atomic_get(&window->groups_begun[group / 64]) >> (group % 64) & 1) != 0;
        seen += begun && bytes / SLICE_BYTES / HUGE_SLICES % GROUP_UNITS == GROUP_UNITS / 2;
    }
    CHECK(seen == 2); // halfway through each of the two groups
    for (unsigned i = 0; i < 2 * GROUP_UNITS; i++) run_return(runs[i], RUN_DISCARDED);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    reserve_set_huge(true);
    if (KEEL_SECURE) return 0; // it has no such budget
    test_first_blocks_take_few_faults();
    test_blocks_count_until_they_end();
    test_resized_blocks_count();
    test_budget_is_bounded();
    test_sparse_blocks_are_found();
    test_sparse_block_ends_it();
    test_rest_of_unit_is_no_surplus();
    test_next_group_is_mapped_ahead();
    return 0;
}

// The work of one call does not grow with the heap: with 2 TiB of address space in use and holes in
// every window, a search for a run looks at a fixed number of windows.
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"

enum { RUNS = 32768, HOLE = 4 }; // of 64 MiB each

static char* runs[RUNS];

static uint64_t worst(enum work work) {
    return atomic_get(&counters.worst[work]);
}

// Takes 2 TiB. Nothing of it is touched but its metadata.
static size_t fill(void) {
    size_t count = 0;
    while (count < RUNS && (runs[count] = run_allocate(RUN_SLICES_MAX).start) != NULL) count++;
    return count;
}

static void test_many_windows(void) {
    size_t count = fill();
    CHECK(count == RUNS);
    CHECK(atomic_get(&windows.count) >= 1024);
    // Each run gets a hole that is too short for 5 slices, but in the same bucket.
    for (size_t i = 0; i < count; i++) run_release(runs[i] + 10 * SLICE_BYTES, HOLE);
    uint64_t before = event_total(EVENT_MAP);
    for (unsigned i = 0; i < 100; i++) CHECK(run_allocate(5).start != NULL);
    CHECK(event_total(EVENT_MAP) <= before + 20); // 9 superblocks of a new window
    for (unsigned i = 0; i < 100; i++) CHECK(kl_malloc(120000) != NULL);
    before = event_total(EVENT_MAP);
    char* hole = run_allocate(HOLE).start;
    CHECK(atomic_get(&window_find(hole)->number) < 8); // low windows have such holes
    CHECK(event_total(EVENT_MAP) == before);
    CHECK(worst(WORK_RUN_WINDOWS) <= work_bound(WORK_RUN_WINDOWS));
    CHECK(!KEEL_COUNT || worst(WORK_RUN_WINDOWS) > 1);
    CHECK(run_check());
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    test_many_windows();
    check_work_bounds();
    return 0;
}

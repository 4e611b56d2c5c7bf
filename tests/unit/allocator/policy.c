// The policy for memory (warm/policy.h) by counts: what is resident and belongs to no live block
// stays within its lines, and threads that use little occupy little.
#include "allocator/warm/policy.h"
#include "allocator/space/huge_unit.h"
#include "allocator/space/page_map.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include "os/process.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef __SANITIZE_ADDRESS__
#define __SANITIZE_ADDRESS__ 0
#endif
#ifndef __SANITIZE_THREAD__
#define __SANITIZE_THREAD__ 0
#endif
#define KEEL_TEST_SANITIZED (__SANITIZE_ADDRESS__ + __SANITIZE_THREAD__)

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)
#define SLICES(bytes) ((bytes) / SLICE_BYTES)

static size_t resident_bytes(void) {
    char line[128];
    size_t kib = 0;
    FILE* file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0) kib = strtoul(line + 8, NULL, 10);
    (void)fclose(file);
    return kib * KIB;
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static char* take(size_t bytes) {
    char* block = kl_malloc(bytes);
    CHECK(block != NULL);
    return memset(block, 1, bytes);
}

// The first line: while a program only allocates, below 16 MiB at most 2.5 MiB are idle, above
// a fifth of what is used and 2.5 MiB. What a slice at the end of a run may add counts, too.
static void test_growing_stays_within_the_budget(void) {
    enum { BLOCKS = 60000 };
    static void* blocks[BLOCKS];
    uint64_t random = 7;
    kl_collect(true);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = take(16 + random_next(&random) % (i % 64 == 0 ? 20000 : 1000));
        size_t used = policy_used();
        if (i % 16 == 0) CHECK(policy_idle() <= policy_budget(used) + 4);
    }
    CHECK(policy_used() > 2 * BUDGET_SHARE_FROM && policy_check());
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    kl_collect(true);
    CHECK(policy_check());
}

// The second line: what was not needed for two periods goes back, by steps of slow paths alone.
static void test_rest(size_t bytes, size_t block_bytes) {
    enum { BLOCKS_MAX = 300000 };
    static void* blocks[BLOCKS_MAX];
    size_t count = bytes / block_bytes;
    CHECK(count <= BLOCKS_MAX);
    option_set(OPTION_RESET_DELAY, 20);
    for (size_t i = 0; i < count; i++) blocks[i] = take(block_bytes);
    for (size_t i = count / 8; i < count; i++) kl_free(blocks[i]);
    size_t steps = 0;
    for (; steps < 3; steps++) {
        pause_ms(20);
        (void)reserve_step();
    }
    for (; reserve_step(); steps++) CHECK(steps < SLICES(2 * bytes) + 64);
    // And the slices that this thread's heap keeps.
    CHECK(policy_idle() <= policy_budget(policy_used()) / IDLE_SHARE + 8);
    for (size_t i = 0; i < count / 8; i++) kl_free(blocks[i]);
    option_set(OPTION_RESET_DELAY, 500);
    kl_collect(true);
}

// Frees do not leave more than the peak and the budget.
static void test_frees_stay_within_the_peak(void) {
    enum { BLOCKS = 10000 };
    static void* blocks[BLOCKS];
    kl_collect(true);
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = take(1000);
    size_t peak = policy_used();
    CHECK(peak < BUDGET_SHARE_FROM && peak > SLICES(9 * MIB));
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    CHECK(policy_used() + policy_idle() <= peak + BUDGET_BASE + 8);
    kl_collect(true);
}

// Blocks above 8 KiB that the program does not touch occupy nothing but what is on trust: malloc
// does not write to the only block of a carve.
static void test_untouched_wide_blocks(void) {
    enum { BLOCKS = 2000, BYTES = 60000 };
    static void* blocks[BLOCKS];
    kl_collect(true);
    size_t before = resident_bytes();
    for (unsigned i = 0; i < BLOCKS; i++) CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
    size_t taken = resident_bytes() - before;
    CHECK(KEEL_TEST_SANITIZED || KEEL_SECURE || KEEL_DEBUG || taken <= 6 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    kl_collect(true);
}

// Blocks of less than a slice of which the program touches little: their pages are resident only on
// trust, which is bounded however many there are.
static void test_sparse_wide_blocks(void) {
    enum { BLOCKS = 2000, BYTES = 60000 };
    static void* blocks[BLOCKS];
    void* live = take(8 * MIB);
    kl_collect(true);
    size_t before = resident_bytes();
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
        *(char*)blocks[i] = 1;
        CHECK((size_t)atomic_get(&policy.trusted) <= TRUST_BASE + policy_used() / TRUST_SHARE + 1);
    }
    size_t taken = resident_bytes() - before;
    if (!KEEL_TEST_SANITIZED && !KEEL_DEBUG) CHECK(taken <= BLOCKS * 8 * KIB + 8 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    kl_free(live);
    kl_collect(true);
    CHECK(policy_check());
}

// --- Threads -------------------------------------------------------------------------------------

enum { SLEEPERS = 100, SIZES = 20 };
static pthread_barrier_t asleep, awake;

static void* use_little(void* unused) {
    void* blocks[SIZES];
    for (unsigned i = 0; i < SIZES; i++) blocks[i] = take(16 + 40 * i);
    pthread_barrier_wait(&asleep);
    pthread_barrier_wait(&awake);
    for (unsigned i = 0; i < SIZES; i++) kl_free(blocks[i]);
    return unused;
}

// Each thread uses a block of each of 20 classes: a system page of each class, and its heap.
static void test_threads_are_modest(void) {
    pthread_t threads[SLEEPERS];
    pthread_barrier_init(&asleep, NULL, SLEEPERS + 1);
    pthread_barrier_init(&awake, NULL, SLEEPERS + 1);
    kl_collect(true);
    atomic_set(&policy.peak_now, 0); // of the tests before: it admits more
    atomic_set(&policy.peak_before, 0);
    size_t before = resident_bytes();
    for (unsigned i = 0; i < SLEEPERS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_little, NULL) == 0);
    pthread_barrier_wait(&asleep);
    size_t taken = resident_bytes() - before;
    // What the threads use, half as much on trust and idle, 48 KiB for a heap and a stack.
    size_t most = SLEEPERS * (SIZES * 4 * KIB * 3 / 2 + (KEEL_SECURE ? 96 : 48) * KIB);
    if (!KEEL_TEST_SANITIZED) CHECK(taken <= most + 2 * MIB);
    CHECK(policy_idle() <= policy_budget(policy_used()) + 4);
    CHECK((size_t)atomic_get(&policy.trusted) <= TRUST_BASE + policy_used() / TRUST_SHARE + 1);
    pthread_barrier_wait(&awake);
    for (unsigned i = 0; i < SLEEPERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    kl_collect(true);
    CHECK(policy_check() && run_check());
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

// Units are populated while they cost less than small pages, on the whole. `last_us`: the time of
// the unit that exceeds the loss.
static void wait_for_huge(uint64_t last_us) {
    uint64_t begin = os_clock_ms();
    for (;;) {
        uint64_t now = os_clock_ms(); // before the question: this thread may be preempted
        if (policy_may_have_huge()) break;
        CHECK(now <= begin + last_us * HUGE_PAUSE / 1000);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}
static void test_slow_huge_pages(void) {
    const uint64_t fast = 100, slow = 3000;
    const uint64_t slowest = 1000000; // a pause of 64 s: longer than this test is preempted
    const unsigned admitted = HUGE_LOSS_US / (slow - UNIT_SMALL_US);
    for (unsigned i = 0; i < admitted; i++) policy_note_huge(slow);
    CHECK(policy_may_have_huge() && policy_admits_unit(UNITS_FROM));
    for (unsigned i = 0; i < HUGE_LOSS_US / (UNIT_SMALL_US - fast) + 1; i++) policy_note_huge(fast);
    for (unsigned i = 0; i < admitted; i++) policy_note_huge(slow); // fast ones have won it back
    CHECK(policy_may_have_huge());
    policy_note_huge(slowest);
    CHECK(!policy_may_have_huge() && !policy_admits_unit(UNITS_FROM));
    CHECK(reserve_populate_unit(UNITS_FROM) == 0);
    option_set(OPTION_LARGE_OS_PAGES, 1);
    CHECK(policy_may_have_huge());
    policy_note_huge(slowest);
    option_set(OPTION_LARGE_OS_PAGES, 0);
    policy_note_huge(slow); // the first one after a pause decides again
    wait_for_huge(slow);
    policy_note_huge(slowest);
    CHECK(!policy_may_have_huge());
    policy_note_huge(slow);
    wait_for_huge(slow);
    for (unsigned i = 0; i < HUGE_LOSS_US / (UNIT_SMALL_US - fast) + 1; i++) policy_note_huge(fast);
    CHECK(policy_may_have_huge());
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    policy_set_huge(true);
    if (!KEEL_SECURE) test_next_group_is_mapped_ahead();
    test_slow_huge_pages();
    option_set(OPTION_LARGE_OS_PAGES, 1); // what follows counts units
    test_growing_stays_within_the_budget();
    test_rest(4 * MIB, 1000);
    test_rest(64 * MIB, 1000);
    test_rest(64 * MIB, 300 * KIB);
    test_frees_stay_within_the_peak();
    test_untouched_wide_blocks();
    test_sparse_wide_blocks();
    test_threads_are_modest();
    return 0;
}

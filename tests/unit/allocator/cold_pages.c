// Pages on memory that is not resident, or only in part, pages on trust, and units of 2 MiB. This
// program defines madvise, to see how much is populated while the lock of all mappings is held.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/pool.h"
#include "allocator/page/page.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include "os/memory.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STEP = 256, SLICE_PAGES = SLICE_BYTES / SYSTEM_PAGE, CARVES = SYSTEM_PAGE / STEP / 16 };

static bool populates;        // the system can do that: from Linux 5.14 on
static size_t most_populated; // by one call to the system

int madvise(void* start, size_t bytes, int advice) {
    enum { POPULATE_WRITE = 23 };
    if (advice == POPULATE_WRITE && bytes > most_populated) most_populated = bytes;
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

static bool hides_memory; // mincore finds nothing resident

static void (*meanwhile)(void); // called once, while a unit of 2 MiB is being populated

int mincore(void* start, size_t bytes, unsigned char* resident) {
    void (*other_thread)(void) = meanwhile;
    meanwhile = NULL;
    if (other_thread != NULL) other_thread();
    if (!hides_memory) return (int)syscall(SYS_mincore, start, bytes, resident);
    memset(resident, 0, (bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE);
    return 0;
}

static unsigned resident_pages(const char* start) {
    unsigned char resident[SLICE_PAGES];
    unsigned count = 0;
    CHECK(os_resident((void*)(uintptr_t)start, SLICE_BYTES, resident));
    for (unsigned i = 0; i < SLICE_PAGES; i++) count += resident[i] & 1;
    return count;
}

static char* cold_slice(void) {
    reserve_discard_all();
    struct run run = run_allocate_narrow(1, RUN_SMALL);
    CHECK(run.start != NULL);
    CHECK(run.warm == false && resident_pages(run.start) == 0);
    return run.start;
}

static struct page* begin(char* start, unsigned fresh, unsigned resident) {
    return page_begin(start, 1, size_class_of(STEP), (uintptr_t)thread_heap, fresh, resident);
}

static struct block* carve(struct page* page) {
    struct block* rest;
    return page_carve(page, &rest);
}

// Carves the blocks of one more system page.
static void carve_page(struct page* page) {
    for (unsigned i = 0; i < CARVES; i++) {
        unsigned before = page_use(page)->carved;
        CHECK(carve(page) != NULL);
        CHECK(page_use(page)->carved == before + 16);
    }
}

static void end(struct page* page) {
    struct page_use* use = page_use(page);
    for (unsigned i = 0; i < use->carved; i++) (void)page_push(page, page->start + i * STEP);
    page_end(page);
}

// --- Slices that a page has left partly cold -----------------------------------------------------

static void test_absent(void) {
    char* start = cold_slice();
    struct page* page = begin(start, PAGE_COLD, 0);
    for (unsigned i = 0; i < 3; i++) carve_page(page);
    end(page);
    CHECK(resident_pages(start) == 3);
    CHECK(page_resident(start, 1) == 3);

    // The next page there: no page fault in its first 3 system pages.
    page = begin(start, PAGE_COLD, page_resident(start, 1));
    uint64_t faults = event_total(EVENT_INLINE_FAULTS);
    for (unsigned i = 0; i < 3; i++) carve_page(page);
    CHECK(event_total(EVENT_INLINE_FAULTS) == faults && resident_pages(start) == 3);
    for (unsigned i = 3; i < SLICE_PAGES; i++) {
        carve_page(page);
        CHECK(resident_pages(start) == i + 1);
    }
    CHECK(event_total(EVENT_INLINE_FAULTS) == faults + SLICE_PAGES - 3);
    end(page);
    CHECK(page_resident(start, 1) == SLICE_PAGES);
    run_release(start, 1);

    // With permission for it, from the third system page on as many as are carved.
    start = cold_slice();
    page = begin(start, PAGE_COLD | PAGE_AHEAD, 0);
    faults = event_total(EVENT_INLINE_FAULTS);
    for (unsigned i = 0; i < SLICE_PAGES; i++) {
        carve_page(page);
        unsigned expected = i < 2 ? i + 1 : 2u << bit_highest(i);
        CHECK(resident_pages(start) == expected);
    }
    CHECK(event_total(EVENT_INLINE_FAULTS) == faults + 2);
    end(page);

    // A page on resident memory that carves little leaves all of it resident.
    page = begin(start, PAGE_WARM, SLICE_PAGES);
    carve_page(page);
    end(page);
    CHECK(page_resident(start, 1) == SLICE_PAGES);
    run_release(start, 1);
}

// A page of several slices: the first cold system page ends what is resident.
static void test_absent_wide(void) {
    struct run run = run_allocate_narrow(WIDE_PAGE_SLICES, RUN_SMALL);
    unsigned wide = size_class_of(ONE_SLICE_BYTES_MAX + 1);
    CHECK(run.start != NULL && page_slices(wide, 2) == WIDE_PAGE_SLICES);
    struct page* page =
        page_begin(run.start, WIDE_PAGE_SLICES, wide, (uintptr_t)thread_heap, PAGE_COLD, 0);
    uint32_t bytes = page->block_bytes;
    unsigned blocks = SLICE_BYTES / bytes + 1; // ends in the second slice
    for (unsigned i = 0; i < blocks;) {
        CHECK(carve(page) != NULL);
        i = page_use(page)->carved;
    }
    unsigned carved = page_use(page)->carved;
    for (unsigned i = 0; i < carved; i++) (void)page_push(page, page->start + i * bytes);
    page_end(page);
    unsigned expected = (unsigned)((carved * bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE);
    CHECK(expected > SLICE_PAGES && expected < 2 * SLICE_PAGES);
    CHECK(page_resident(run.start, WIDE_PAGE_SLICES) == expected);
    CHECK(page_resident(run.start + SLICE_BYTES, 1) == expected - SLICE_PAGES);
    run_release(run.start, WIDE_PAGE_SLICES);
}

// A page of several slices that ends early leaves the slices that it never reached without memory.
static void test_untouched(void) {
    enum { REACHED = 2 };
    reserve_discard_all();
    unsigned wide = size_class_of(ONE_SLICE_BYTES_MAX + 1);
    for (unsigned had_memory = 0; had_memory <= WIDE_PAGE_SLICES; had_memory++) {
        struct run run = run_allocate_narrow(WIDE_PAGE_SLICES, RUN_SMALL);
        CHECK(run.start != NULL && run.untouched == WIDE_PAGE_SLICES);
        run_release(run.start, WIDE_PAGE_SLICES);
        reserve_discard_all();
        // The first slices have been used before.
        struct run before = had_memory > 0 ? run_allocate_narrow(had_memory, RUN_SMALL) : run;
        CHECK(before.start == run.start);
        if (had_memory > 0) run_release(before.start, had_memory);
        size_t dirty = run_dirty_slices();
        CHECK(dirty == had_memory);
        run = run_allocate(WIDE_PAGE_SLICES);
        CHECK(run.start == before.start && run.untouched == WIDE_PAGE_SLICES - had_memory);
        struct page* page =
            page_begin(run.start, WIDE_PAGE_SLICES, wide, (uintptr_t)thread_heap, PAGE_COLD, 0);
        page_note_untouched(page, run.untouched);
        uint32_t bytes = page->block_bytes;
        while (page_use(page)->carved * bytes <= SLICE_BYTES) CHECK(carve(page) != NULL);
        unsigned carved = page_use(page)->carved;
        CHECK(carved * bytes <= REACHED * SLICE_BYTES);
        for (unsigned i = 0; i < carved; i++) (void)page_push(page, page->start + i * bytes);
        page_release(page);
        CHECK(run_dirty_slices() == (had_memory > REACHED ? had_memory : REACHED));
        reserve_discard_all();
    }
}

// What is not carved yet is not used.
static void test_used(void) {
    char* start = cold_slice();
    size_t used = policy_used();
    int64_t untouched = atomic_get(&policy.untouched);
    struct page* page = begin(start, PAGE_COLD, 0);
    CHECK(policy_used() == used - 1); // the slice itself counted before
    for (unsigned i = 0; i < SLICE_PAGES; i++) {
        CHECK(atomic_get(&policy.untouched) ==
              untouched + (int64_t)((SLICE_PAGES - i) * SYSTEM_PAGE));
        carve_page(page);
    }
    CHECK(policy_used() == used);
    end(page);
    page = begin(start, PAGE_COLD, 2);
    carve_page(page);
    end(page); // while most of it is untouched
    CHECK(atomic_get(&policy.untouched) == untouched);
    run_release(start, 1);
    reserve_discard_all();
}

// --- The reserve ---------------------------------------------------------------------------------

// The keeper must not hold the lock of all mappings while memory is zeroed, and it changes the
// mappings rarely.
static void test_reserve_populates(void) {
    enum { POPULATED_UNITS = 24 };
    most_populated = 0;
    uint64_t maps = event_total(EVENT_MAP);
    for (unsigned i = 0; i < POPULATED_UNITS; i++) CHECK(reserve_populate_huge() == HUGE_SLICES);
    CHECK(event_total(EVENT_MAP) - maps <= POPULATED_UNITS / GROUP_UNITS + 4); // metadata
    CHECK(most_populated == 0);
    size_t warm = run_dirty_slices();
    if (populates) CHECK(reserve_populate(4) == 4 && run_dirty_slices() == warm + 4);
    CHECK(most_populated <= os_page_bytes());
    static char* slices[64 + POPULATED_UNITS * HUGE_SLICES];
    unsigned count = 0;
    for (struct run run; (run = run_allocate_warm(1)).start != NULL;) {
        CHECK(resident_pages(run.start) == SLICE_PAGES);
        slices[count++] = run.start;
    }
    while (count > 0) run_release(slices[--count], 1);
    reserve_discard_all();
}

// Pages of classes that have filled none begin warm on trust: some for each process, and more in
// threads that fill pages, as many as the used memory admits.
static void test_trust(void) {
    enum { SIZES = 56 };
    void* blocks[SIZES];
    thread_heap->earned = SIZES; // pages that it has filled
    void* live = kl_malloc((size_t)8 << 20);
    CHECK(live != NULL);
    memset(live, 1, (size_t)8 << 20);              // on a cold mapping: an eighth counts as used
    for (unsigned round = 0; round < 4; round++) { // pages that have ended do not count
        kl_collect(true);                          // the heap keeps no slices
        policy_set_huge(true);
        for (unsigned unit = 0; unit < 2; unit++) CHECK(reserve_populate_huge() == HUGE_SLICES);
        policy_set_huge(false); // no further unit
        CHECK(policy_used() >= UNITS_FROM && atomic_get(&policy.trusted) == 0);
        for (unsigned i = 0; i < SIZES; i++) {
            CHECK((blocks[i] = kl_malloc(size_class_bytes[i])) != NULL);
            size_t earned = round < 3 ? policy_used() / TRUST_SHARE : 0;
            CHECK((size_t)atomic_get(&policy.trusted) <= TRUST_BASE + earned);
        }
        CHECK((atomic_get(&policy.trusted) > TRUST_BASE) == (round < 3));
        for (unsigned i = 0; i < SIZES; i++) kl_free(blocks[i]);
        CHECK(thread_heap->earned < SIZES);
        thread_heap->earned = round < 2 ? SIZES : 0;
    }
    kl_collect(true);
    CHECK(atomic_get(&policy.trusted) == 0);
    kl_free(live);
    mapping_cache_clear();
}

// --- Units of 2 MiB ------------------------------------------------------------------------------

enum { UNITS = 6, BLOCKS = UNITS * HUGE_SLICES * (SLICE_BYTES / 1024) };

// Fills pages of one class in cold memory. Returns the units of 2 MiB populated meanwhile.
static uint64_t fill(void) {
    static void* blocks[BLOCKS];
    reserve_discard_all();
    uint64_t before = event_total(EVENT_UNITS);
    for (unsigned i = 0; i < BLOCKS; i++) CHECK((blocks[i] = kl_malloc(1000)) != NULL);
    uint64_t units = event_total(EVENT_UNITS) - before;
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    kl_collect(true);
    return units;
}

static void test_units(void) {
    CHECK(fill() == 0); // there may be no keeper
    option_set(OPTION_KEEPER, KEEPER_AUTO);
    void* live = kl_malloc((size_t)8 << 20);
    CHECK(live != NULL && policy_used() >= UNITS_FROM);
    hides_memory = true;
    CHECK(reserve_take(4).start == NULL); // the first unit is no huge page
    hides_memory = false;
    CHECK(reserve_take(4).start == NULL); // no second attempt
    CHECK(run_dirty_slices() == 0);
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    policy_set_huge(true);
    uint64_t units = fill();
    if (populates) CHECK(units >= UNITS - 2 && units <= UNITS);
    policy_set_cap(policy_held() + BLOCKS / 64 / 2);
    CHECK(fill() < units || !populates); // the control group's limit is near
    policy_set_cap(SIZE_MAX);
    kl_free(live);
    mapping_cache_clear();
}

static void test_units_of_small_process(void) {
    enum { SMALL = 100 }; // 100 KB
    static void* blocks[SMALL];
    kl_collect(true);
    CHECK(policy_used() < UNITS_FROM / 2);
    uint64_t before = event_total(EVENT_UNITS);
    for (unsigned i = 0; i < SMALL; i++) CHECK((blocks[i] = kl_malloc(1000)) != NULL);
    CHECK(event_total(EVENT_UNITS) == before);
    CHECK(!policy_admits_unit(1));
    for (unsigned i = 0; i < SMALL; i++) kl_free(blocks[i]);
}

// A unit is discarded as a whole, also if it has one slice with memory: only that one counts.
static void test_sparse_units_are_discarded(void) {
    enum { UNITS_HELD = 8 };
    static char* slices[UNITS_HELD][HUGE_SLICES];
    reserve_discard_all();
    policy_set_huge(true);
    for (unsigned unit = 0; unit < UNITS_HELD; unit++) {
        CHECK(reserve_populate_huge() == HUGE_SLICES);
        for (unsigned i = 0; i < HUGE_SLICES; i++) {
            slices[unit][i] = run_allocate_warm(1).start;
            CHECK(slices[unit][i] != NULL);
        }
    }
    CHECK(run_dirty_slices() == 0);
    for (unsigned unit = 0; unit < UNITS_HELD; unit++) {
        for (unsigned i = 1; i < HUGE_SLICES; i++) run_release(slices[unit][i], 1);
        while (run_dirty_slices() > 0) CHECK(reserve_discard(HUGE_SLICES / 4) > 0);
    }
    for (unsigned unit = 0; unit < UNITS_HELD; unit++) run_release(slices[unit][0], 1);
    CHECK(run_dirty_slices() == UNITS_HELD);
    CHECK(reserve_discard(SUPERBLOCK_SLICES) == 1 && run_dirty_slices() == UNITS_HELD - 1);
    reserve_discard_all();
    CHECK(run_dirty_slices() == 0);
}

// The discarded run has as many slices as a unit, but they are the halves of two: they stay open.
static void test_run_over_two_units(void) {
    static char* slices[4 * HUGE_SLICES];
    unsigned count = 0;
    reserve_discard_all();
    policy_set_huge(true);
    for (unsigned unit = 0; unit < 4; unit++) CHECK(reserve_populate_huge() == HUGE_SLICES);
    struct run run;
    while (count < 4 * HUGE_SLICES && (run = run_allocate_warm(1)).start != NULL)
        slices[count++] = run.start;
    CHECK(count == 4 * HUGE_SLICES);
    char* base = NULL; // of a superblock, all of whose slices are here
    for (unsigned i = 0; i < count; i++) {
        bool first = (uintptr_t)slices[i] % SUPERBLOCK_BYTES == 0;
        unsigned same = 0;
        for (unsigned j = 0; first && j < count; j++)
            same += (size_t)(slices[j] - slices[i]) < SUPERBLOCK_BYTES;
        if (same == SUPERBLOCK_SLICES) base = slices[i];
    }
    CHECK(base != NULL);
    const unsigned half = HUGE_SLICES / 2;
    run_release(base + half * SLICE_BYTES, HUGE_SLICES);
    struct free_run taken = run_take_dirty(HUGE_SLICES);
    CHECK(taken.start == base + half * SLICE_BYTES && taken.slices == HUGE_SLICES);
    CHECK(run_splits_unit(taken));
    run_return(taken, RUN_DISCARDED);
    struct window* window = window_find(base);
    size_t index = (size_t)(base - window->base) / SUPERBLOCK_BYTES;
    CHECK(atomic_get(&window->superblocks[index].open) == ~UINT64_C(0));
    for (unsigned i = 0; i < count; i++)
        if ((size_t)(slices[i] - taken.start) >= HUGE_SLICES * SLICE_BYTES)
            run_release(slices[i], 1);
    reserve_discard_all();
    CHECK(run_check());
}

// A thread that needs memory while another one populates a unit does not wait for that one, which
// the system may have preempted. The units under way count as warm memory.
enum { TAKEN = 4 };
static unsigned taken_beside;

static void take_beside(void) {
    bool more = taken_beside < 2;
    if (more) meanwhile = take_beside;
    struct run run = reserve_take(TAKEN);
    meanwhile = NULL;
    if (run.start == NULL) return;
    taken_beside++;
    run_release(run.start, TAKEN);
}

static void test_units_beside(void) {
    void* live = kl_malloc((size_t)96 << 20); // 12 MiB of it count as used, so the budget is a unit
    CHECK(live != NULL);
    kl_collect(true);
    reserve_discard_all();
    policy_set_huge(true);
    uint64_t before = event_total(EVENT_UNITS);
    meanwhile = take_beside;
    struct run run = reserve_take(TAKEN);
    if (populates) CHECK(run.start != NULL && taken_beside == 0);
    CHECK(event_total(EVENT_UNITS) - before == 1);
    if (run.start != NULL) run_release(run.start, TAKEN);
    kl_free(live);
    kl_collect(true);
    live = kl_malloc((size_t)512 << 20); // 64 MiB: room for several
    CHECK(live != NULL);
    reserve_discard_all();
    before = event_total(EVENT_UNITS);
    meanwhile = take_beside;
    run = reserve_take(TAKEN);
    if (populates) CHECK(run.start != NULL && taken_beside >= 1);
    CHECK(policy_idle() <= policy_budget(policy_used()) + HUGE_SLICES);
    if (run.start != NULL) run_release(run.start, TAKEN);
    kl_free(live);
    mapping_cache_clear();
    reserve_discard_all();
}

// --- Large blocks --------------------------------------------------------------------------------

enum { LARGE = 512 << 10, LARGE_BLOCKS = 48 };

// Allocates blocks while there are no warm slices. Returns how many of them had all of their memory
// before the program touched it.
static unsigned allocate_large(size_t touched) {
    static char* blocks[LARGE_BLOCKS];
    unsigned whole = 0;
    kl_collect(true);
    reserve_discard_all();
    for (unsigned i = 0; i < LARGE_BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(LARGE)) != NULL);
        whole += resident_pages(blocks[i] + LARGE - SLICE_BYTES) == SLICE_PAGES;
        memset(blocks[i], 1, touched);
    }
    for (unsigned i = 0; i < LARGE_BLOCKS; i++) kl_free(blocks[i]);
    return whole;
}

// A program that touches only the start of its blocks pays for no more; one that fills them takes
// few page faults. Both may change at any time.
static void test_large_blocks(void) {
    void* live = kl_malloc((size_t)8 << 20);
    CHECK(live != NULL);
    policy_set_huge(true);
    fill_forget();
    CHECK(allocate_large(1) == 0); // nothing is known yet
    CHECK(allocate_large(1) == 0);
    (void)allocate_large(LARGE);
    uint64_t before = event_total(EVENT_UNITS);
    unsigned whole = allocate_large(LARGE);
    if (populates) CHECK(whole >= LARGE_BLOCKS * 3 / 4); // but for the probes
    CHECK(event_total(EVENT_UNITS) - before <= LARGE_BLOCKS * LARGE / ((size_t)2 << 20));
    whole = 0;
    const unsigned between = FILL_DRAWS << FILL_DOUBLINGS; // probes, at most
    for (unsigned begun = 0; begun <= between; begun += LARGE_BLOCKS) whole += allocate_large(1);
    CHECK(whole <= between);
    CHECK(allocate_large(1) == 0);
    (void)allocate_large(LARGE);
    CHECK(kl_thread_set_realtime((size_t)1 << 20));
    before = event_total(EVENT_UNITS);
    (void)allocate_large(LARGE);
    CHECK(event_total(EVENT_UNITS) == before);
    CHECK(kl_thread_set_realtime(0));
    kl_free(live);
    mapping_cache_clear();
}

// The slices that a thread needs are in the unit that it populates for them.
static void test_taken_from_unit(void) {
    void* live = kl_malloc((size_t)8 << 20);
    policy_set_huge(true);
    reserve_discard_all();
    struct run run = reserve_take(3);
    if (populates) CHECK(run.start != NULL && resident_pages(run.start) == SLICE_PAGES);
    if (run.start != NULL) run_release(run.start, 3);
    // Fragments do not serve a longer run, but are not paid for with more and more memory.
    enum { MANY = 24, LONG = 23 };
    struct run held[MANY];
    unsigned count = 0;
    while (count < MANY && (held[count] = reserve_take(LONG)).start != NULL) {
        CHECK(!policy_is_above());
        count++;
    }
    CHECK(count < MANY && !policy_admits_unit(LONG));
    while (count > 0) run_release(held[--count].start, LONG);
    kl_free(live);
    mapping_cache_clear();
    reserve_discard_all();
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_LARGE_OS_PAGES, 1); // also where they are slow: it counts units
    kl_free(kl_malloc(1));
    char* probe = cold_slice();
    populates = os_populate(probe, SYSTEM_PAGE);
    run_release(probe, 1);
    reserve_discard_all();
    if (!KEEL_SECURE) { // its blocks have states and are carved into arrays
        test_absent();
        test_absent_wide();
        test_untouched();
        test_used();
    }
    test_units();
    test_units_of_small_process();
    test_reserve_populates();
    test_trust();
    test_taken_from_unit();
    test_units_beside();
    test_run_over_two_units();
    test_sparse_units_are_discarded();
    test_large_blocks();
    check_work_bounds();
    return 0;
}

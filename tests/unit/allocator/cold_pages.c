// Pages on memory that is not resident, or only in part, in a process whose keeper is late or does
// not run: memory is provided for several system pages at once. This program defines madvise, to
// see how much is populated while the lock of all mappings is held.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/pool.h"
#include "allocator/page/page.h"
#include "allocator/slices/filling.h"
#include "allocator/slices/reserve.h"
#include "allocator/slices/run.h"
#include "allocator/slices/window.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include "os/memory.h"
#include <pthread.h>
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
    struct run run = run_allocate_narrow(1, RUN_COLD);
    CHECK(run.start != NULL);
    CHECK(run.warm == false && resident_pages(run.start) == 0);
    return run.start;
}

static struct page* begin(char* start, unsigned fresh, unsigned resident) {
    return page_begin(start, 1, size_class_of(STEP), (uintptr_t)thread_heap, fresh, resident);
}

// Carves the blocks of one more system page.
static void carve_page(struct page* page) {
    for (unsigned i = 0; i < CARVES; i++) {
        unsigned before = page_use(page)->carved;
        CHECK(page_carve(page) != NULL);
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

    // The next page there: no page fault in its first 3 system pages, then one call for the rest of
    // the 8, and one for the next 8.
    page = begin(start, PAGE_COLD | PAGE_AHEAD | PAGE_FILLS, page_resident(start, 1));
    uint64_t calls = event_total(EVENT_POPULATE);
    uint64_t faults = event_total(EVENT_INLINE_FAULTS);
    for (unsigned i = 0; i < 3; i++) carve_page(page);
    CHECK(event_total(EVENT_POPULATE) == calls && resident_pages(start) == 3);
    for (unsigned i = 3; i < SLICE_PAGES; i++) {
        carve_page(page);
        if (populates) CHECK(resident_pages(start) == (i < 8 ? 8 : SLICE_PAGES));
    }
    if (populates) {
        CHECK(event_total(EVENT_POPULATE) == calls + 2);
        CHECK(event_total(EVENT_INLINE_FAULTS) == faults);
    }
    end(page);
    CHECK(page_resident(start, 1) == SLICE_PAGES);

    // A page on resident memory that carves little leaves all of it resident.
    page = begin(start, PAGE_WARM, SLICE_PAGES);
    carve_page(page);
    end(page);
    CHECK(page_resident(start, 1) == SLICE_PAGES);
    run_release(start, 1);
}

// A page of several slices: the first cold system page ends what is resident.
static void test_absent_wide(void) {
    struct run run = run_allocate_narrow(WIDE_PAGE_SLICES, RUN_COLD);
    unsigned wide = size_class_of(ONE_SLICE_BYTES_MAX + 1);
    CHECK(run.start != NULL && page_slices(wide) == WIDE_PAGE_SLICES);
    struct page* page =
        page_begin(run.start, WIDE_PAGE_SLICES, wide, (uintptr_t)thread_heap, PAGE_COLD, 0);
    uint32_t bytes = page->block_bytes;
    unsigned blocks = SLICE_BYTES / bytes + 1; // ends in the second slice
    for (unsigned i = 0; i < blocks;) {
        CHECK(page_carve(page) != NULL);
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

// --- A keeper that is late -----------------------------------------------------------------------

static void test_late(void) {
    char* start = cold_slice();
    struct page* page = begin(start, PAGE_COLD | PAGE_AHEAD, 0);
    reserve_set_keeper(true); // there is none that would do anything
    carve_page(page);         // requests the second system page
    uint64_t calls = event_total(EVENT_POPULATE);
    carve_page(page);
    if (populates) CHECK(event_total(EVENT_POPULATE) == calls + 1);
    // A keeper in time: no call on this thread, until its requests are pending again.
    CHECK(prefault_populate() > 0);
    unsigned resident = resident_pages(start);
    calls = event_total(EVENT_POPULATE);
    uint64_t faults = event_total(EVENT_INLINE_FAULTS);
    if (populates) CHECK(resident > 2);
    for (unsigned i = 2; i < resident; i++) {
        (void)prefault_populate();
        carve_page(page);
    }
    CHECK(event_total(EVENT_INLINE_FAULTS) == faults + (resident - 2)); // it cannot know
    for (unsigned i = resident; i < SLICE_PAGES; i++) carve_page(page);
    if (populates) CHECK(resident_pages(start) == SLICE_PAGES);
    reserve_set_keeper(false);
    (void)prefault_populate();
    end(page);
    run_release(start, 1);
}

// A realtime thread makes no system call.
static void test_late_realtime(void) {
    char* start = cold_slice();
    struct page* page = begin(start, PAGE_COLD, 0);
    reserve_set_keeper(true);
    uint64_t calls = event_total(EVENT_POPULATE);
    for (unsigned i = 0; i < SLICE_PAGES; i++) carve_page(page);
    CHECK(event_total(EVENT_POPULATE) == calls);
    reserve_set_keeper(false);
    (void)prefault_populate();
    end(page);
    run_release(start, 1);
}

// --- Memory that is provided by touching it ------------------------------------------------------

static void fill_blocks(struct block* list, unsigned bytes) {
    while (list != NULL) {
        struct block* next = list->next;
        memset((void*)list, 0xff, bytes);
        list = next;
    }
}

// Blocks that end in the next system page keep their content when that one is provided.
static void test_touch_keeps_content(unsigned flags, bool late) {
    enum { BYTES = 3072 };
    char* start = cold_slice();
    struct page* page =
        page_begin(start, 1, size_class_of(BYTES), (uintptr_t)thread_heap, flags, 0);
    CHECK(page->block_bytes == BYTES);
    reserve_set_keeper(late);
    most_populated = 0;
    for (struct block* list; (list = page_carve(page)) != NULL;) fill_blocks(list, BYTES);
    reserve_set_keeper(false);
    (void)prefault_populate();
    CHECK(page_use(page)->carved == page->capacity);
    for (size_t i = 0; i < (size_t)page->capacity * BYTES; i++) CHECK(start[i] == (char)0xff);
    for (unsigned i = 0; i < page->capacity; i++) (void)page_push(page, start + i * BYTES);
    page_end(page);
    run_release(start, 1);
    reserve_discard_all();
}

static void* no_body(void* unused) {
    return unused;
}

static void test_touch(void) {
    const unsigned fills = PAGE_COLD | PAGE_AHEAD | PAGE_FILLS;
    test_touch_keeps_content(fills, false);
    if (populates) CHECK(most_populated == PREFAULT_NOW_MAX * SYSTEM_PAGE);
    // Now the program has threads, which would wait for the lock.
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, no_body, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (unsigned late = 0; late < 2; late++) {
        test_touch_keeps_content(fills, late);
        test_touch_keeps_content(PAGE_COLD | PAGE_AHEAD, late);
        CHECK(most_populated == 0);
    }
    char* start = cold_slice();
    struct page* page = begin(start, fills, 0);
    carve_page(page);
    CHECK(resident_pages(start) == PREFAULT_NOW_MAX);
    end(page);
    run_release(start, 1);
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

// Pages of classes that have filled none begin warm, but only as many as the live memory affords.
static void test_affords_warm(void) {
    enum { SIZES = 56, LIVE = 1 };
    void* live[LIVE];
    for (unsigned i = 0; i < LIVE; i++) CHECK((live[i] = kl_malloc((size_t)2 << 20)) != NULL);
    CHECK(run_live_slices() >= RESERVE_HUGE_FROM);
    size_t affords = run_live_slices() / WARM_SHARE + WARM_FIRST;
    CHECK(affords > WARM_FIRST + 4 && affords < 2 * HUGE_SLICES);
    reserve_set_target(64); // else so much warm memory is used for every page
    void* blocks[SIZES];
    for (unsigned round = 0; round < 4; round++) { // pages that have ended do not count
        kl_collect(true);                          // the heap keeps no slices
        reserve_set_huge(true);
        for (unsigned unit = 0; unit < 2; unit++) CHECK(reserve_populate_huge() == HUGE_SLICES);
        reserve_set_huge(false); // no further unit
        size_t before = run_dirty_slices();
        for (unsigned i = 0; i < SIZES; i++) blocks[i] = kl_malloc(size_class_bytes[i]);
        size_t taken = before - run_dirty_slices();
        affords = run_live_slices() / WARM_SHARE + WARM_FIRST; // these pages are live, too
        CHECK(taken >= WARM_FIRST / 2 &&
              taken <= affords + 2); // one class of blocks has filled pages before
        for (unsigned i = 0; i < SIZES; i++) kl_free(blocks[i]);
    }
    for (unsigned i = 0; i < LIVE; i++) kl_free(live[i]);
    reserve_set_target(0);
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
    void* live = kl_malloc((size_t)7 << 20);
    void* slices[4];
    CHECK(live != NULL);
    for (unsigned i = 0; i < 4; i++) CHECK((slices[i] = kl_malloc((size_t)2 << 20)) != NULL);
    CHECK(run_live_slices() >= RESERVE_HUGE_FROM);
    CHECK(fill() == 0); // there may be no keeper
    option_set(OPTION_KEEPER, KEEPER_AUTO);
    hides_memory = true;
    CHECK(reserve_take(4).start == NULL); // the first unit is no huge page
    hides_memory = false;
    CHECK(reserve_take(4).start == NULL); // no second attempt
    CHECK(run_dirty_slices() == 0);
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    reserve_set_huge(true);
    uint64_t units = fill();
    if (populates) CHECK(units >= UNITS - 2 && units <= UNITS);
    reserve_set_cap(reserve_held_slices() + BLOCKS / 64 / 2);
    CHECK(fill() < units || !populates); // the control group's limit is near
    reserve_set_cap(SIZE_MAX);
    for (unsigned i = 0; i < 4; i++) kl_free(slices[i]);
    kl_free(live);
}

static void test_units_of_small_process(void) {
    enum { SMALL = 256 }; // 250 KB
    static void* blocks[SMALL];
    kl_collect(true);
    CHECK(run_live_slices() < RESERVE_HUGE_FROM / 4);
    uint64_t before = event_total(EVENT_UNITS);
    for (unsigned i = 0; i < SMALL; i++) CHECK((blocks[i] = kl_malloc(1000)) != NULL);
    CHECK(event_total(EVENT_UNITS) == before);
    CHECK(!reserve_affords_units());
    void* jumbo = kl_malloc((size_t)64 << 20);
    CHECK(jumbo != NULL && reserve_affords_units());
    kl_free(jumbo);
    for (unsigned i = 0; i < SMALL; i++) kl_free(blocks[i]);
}

// A thread that needs memory while another one populates a unit does not wait for that one, which
// the system may have preempted. The units under way count as warm memory.
static unsigned taken_beside;

static void take_beside(void) {
    bool more = taken_beside < 2;
    if (more) meanwhile = take_beside;
    struct run run = reserve_take(MISSED_BESIDE_MAX);
    meanwhile = NULL;
    if (run.start == NULL) return;
    taken_beside++;
    run_release(run.start, MISSED_BESIDE_MAX);
}

static void test_units_beside(void) {
    enum { LIVE = 4 }; // of 1.5 MiB: a quarter is more than half a unit, and less than a whole one
    void* live[LIVE];
    for (unsigned i = 0; i < LIVE; i++) CHECK((live[i] = kl_malloc((size_t)3 << 19)) != NULL);
    kl_collect(true);
    reserve_discard_all();
    reserve_set_huge(true);
    uint64_t before = event_total(EVENT_UNITS);
    meanwhile = take_beside;
    struct run run = reserve_take(MISSED_BESIDE_MAX);
    if (populates) CHECK(run.start != NULL && taken_beside == 1);
    CHECK(event_total(EVENT_UNITS) - before <= 2);
    if (run.start != NULL) run_release(run.start, MISSED_BESIDE_MAX);
    for (unsigned i = 0; i < LIVE; i++) kl_free(live[i]);
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
    enum { EACH = LARGE / SLICE_BYTES };
    void* live = kl_malloc((size_t)2 << 20);
    CHECK(live != NULL && run_live_slices() >= RESERVE_HUGE_FROM);
    reserve_set_huge(true);
    size_t most = UNKNOWN_FIRST + (run_live_slices() + LARGE_BLOCKS * EACH) / UNKNOWN_SHARE;
    unsigned whole = allocate_large(1); // nothing is known yet
    if (populates) CHECK(whole >= UNKNOWN_FIRST / EACH);
    CHECK(whole * EACH <= most + HUGE_SLICES && whole < LARGE_BLOCKS - FILLING_JUDGED);
    CHECK(allocate_large(1) == 0);
    (void)allocate_large(LARGE);
    uint64_t before = event_total(EVENT_UNITS);
    whole = allocate_large(LARGE);
    if (populates) CHECK(whole >= LARGE_BLOCKS / 2);
    CHECK(event_total(EVENT_UNITS) - before <= LARGE_BLOCKS * LARGE / ((size_t)2 << 20));
    // Probes are rarer now: one in eight units of four blocks, and the first blocks may be cold.
    unsigned cold = 0;
    for (unsigned i = 0; i < 4; i++) cold += LARGE_BLOCKS - allocate_large(LARGE);
    if (populates) CHECK(cold <= 4 * LARGE_BLOCKS / 4 / FILLING_PROBE_DRAWS_MAX + 2);
    before = event_total(EVENT_UNITS);
    for (unsigned i = 0; i < 4; i++) (void)allocate_large(1); // up to 48 units
    CHECK(event_total(EVENT_UNITS) - before <= FILLING_PROBE_DRAWS_MAX + FILLING_LOOKS);
    CHECK(allocate_large(1) == 0);
    (void)allocate_large(LARGE / 2); // half of the memory is worth the page faults
    whole = allocate_large(LARGE / 2);
    if (populates) CHECK(whole >= LARGE_BLOCKS / 2);
    (void)allocate_large(LARGE);
    CHECK(kl_thread_set_realtime((size_t)1 << 20));
    before = event_total(EVENT_UNITS);
    (void)allocate_large(LARGE);
    CHECK(event_total(EVENT_UNITS) == before);
    CHECK(kl_thread_set_realtime(0));
    kl_free(live);
}

// The slices that a thread needs are in the unit that it populates for them.
static void test_taken_from_unit(void) {
    void* live = kl_malloc((size_t)3 << 20);
    reserve_set_huge(true);
    reserve_discard_all();
    CHECK(reserve_take(1).start == NULL); // MISSED_SLICES_MAX
    struct run run = reserve_take(3);
    if (populates) CHECK(run.start != NULL && resident_pages(run.start) == SLICE_PAGES);
    if (run.start != NULL) run_release(run.start, 3);
    // Fragments do not serve a longer run, but are not paid for with more and more memory.
    enum { MANY = 24, LONG = 23 }; // two of them leave 18 slices of two units
    struct run held[2 * MANY];
    char* singles[MANY * HUGE_SLICES];
    unsigned singles_count = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < MANY; i++) CHECK(reserve_populate_huge() == HUGE_SLICES);
    while ((held[count] = run_allocate_warm(LONG)).start != NULL) count++;
    CHECK(run_dirty_slices() > run_live_slices() / 4 + HUGE_SLICES);
    uint64_t units = event_total(EVENT_UNITS);
    CHECK(reserve_take(LONG).start == NULL && event_total(EVENT_UNITS) == units);
    // Some fragments are admitted.
    for (unsigned i = 0; run_dirty_slices() > run_live_slices() / 5 + HUGE_SLICES; i++) {
        struct run single = run_allocate_warm(1);
        CHECK(single.start != NULL);
        singles[i] = single.start;
        singles_count = i + 1;
    }
    CHECK(run_dirty_slices() > run_live_slices() / 8 + HUGE_SLICES);
    struct run last = reserve_take(LONG);
    if (populates) CHECK(last.start != NULL);
    if (last.start != NULL) run_release(last.start, LONG);
    while (singles_count > 0) run_release(singles[--singles_count], 1);
    while (count > 0) run_release(held[--count].start, LONG);
    kl_free(live);
    reserve_discard_all();
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    char* probe = cold_slice();
    populates = os_populate(probe, SYSTEM_PAGE);
    run_release(probe, 1);
    reserve_discard_all();
    if (!KEEL_SECURE) { // its blocks have states and are carved into arrays
        test_absent();
        test_absent_wide();
        test_late();
        test_late_realtime();
        test_touch();
    }
    test_units();
    test_units_of_small_process();
    test_reserve_populates();
    test_affords_warm();
    test_taken_from_unit();
    test_units_beside();
    test_large_blocks();
    check_work_bounds();
    return 0;
}

// Pages on memory that is not resident, or only in part, in a process whose keeper is late or does
// not run: one call to the system populates what many page faults would.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/pool.h"
#include "allocator/page/page.h"
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

enum { STEP = 256, SLICE_PAGES = SLICE_BYTES / SYSTEM_PAGE, CARVES = SYSTEM_PAGE / STEP / 16 };

static bool populates; // the system can do that: from Linux 5.14 on

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
    CHECK(fill() == 0); // it is not known whether there are huge pages
    reserve_set_huge(true);
    uint64_t units = fill();
    if (populates) CHECK(units >= UNITS - 2 && units <= UNITS);
    reserve_set_cap(reserve_held_slices() + BLOCKS / 64 + 100);
    CHECK(fill() < units || !populates); // the control group's limit is near
    reserve_set_cap(SIZE_MAX);
    for (unsigned i = 0; i < 4; i++) kl_free(slices[i]);
    kl_free(live);
}

static void test_units_of_small_process(void) {
    static void* blocks[1024];
    kl_collect(true);
    CHECK(run_live_slices() < RESERVE_HUGE_FROM / 2);
    uint64_t before = event_total(EVENT_UNITS);
    for (unsigned i = 0; i < 1024; i++) CHECK((blocks[i] = kl_malloc(1000)) != NULL);
    CHECK(event_total(EVENT_UNITS) == before);
    for (unsigned i = 0; i < 1024; i++) kl_free(blocks[i]);
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
    }
    test_units();
    test_units_of_small_process();
    check_work_bounds();
    return 0;
}

// What refills do beside taking blocks, in a process without a keeper: maintenance becomes rare
// while there is nothing to do, carving populates system pages ahead, a heap keeps the pages of
// classes that its thread may use again, and warm pages give several large blocks at once.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/watch.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include "os/memory.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- Maintenance ---------------------------------------------------------------------------------

// Each malloc of this loop is a refill.
static void refill_times(unsigned times) {
    for (unsigned i = 0; i < times; i++) kl_free(kl_malloc(4096));
}

static void* free_one(void* block) {
    kl_free(block);
    return NULL;
}

static void test_idle_maintenance(void) {
    kl_collect(true);
    CHECK(policy_is_at_rest());
    refill_times(20000);
    CHECK(thread_heap->maintenance_weight == MAINTENANCE_WEIGHT_IDLE);

    // A block that another thread has freed is found within one long interval, and then the next
    // ones are found sooner.
    void* block = kl_malloc(100);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_one, block) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(!remote_queue_is_empty(&thread_heap->remote_queue));
    refill_times(MAINTENANCE_WEIGHT_IDLE / 2);
    CHECK(remote_queue_is_empty(&thread_heap->remote_queue));

    // Unused memory that may have to be returned later: maintenance is rare, but not as rare. The
    // heap of the thread that has ended is reclaimed first.
    for (unsigned i = 0; i < 2000 && !watch_is_empty(); i++) {
        usleep(1000);
        refill_times(MAINTENANCE_WEIGHT_BEHIND);
    }
    refill_times(20000);
    kl_free(memset(kl_malloc((size_t)3 << 19), 1, (size_t)3 << 19));
    CHECK(!policy_is_at_rest());
    refill_times(MAINTENANCE_WEIGHT_IDLE / 2);
    CHECK(thread_heap->maintenance_weight == MAINTENANCE_WEIGHT_WAITS);
    refill_times(20000);
    CHECK(thread_heap->maintenance_weight == MAINTENANCE_WEIGHT_WAITS && !policy_is_at_rest());
    // When the delay is over, it is returned.
    int64_t delay = option_get(OPTION_RESET_DELAY);
    option_set(OPTION_RESET_DELAY, 1);
    for (unsigned i = 0; i < 2000 && !policy_is_at_rest(); i++) {
        usleep(1000);
        refill_times(MAINTENANCE_WEIGHT_WAITS / 2);
    }
    CHECK(policy_is_at_rest());
    option_set(OPTION_RESET_DELAY, delay);
}

// --- Populating ahead ----------------------------------------------------------------------------

enum { STEP = 256, PER_PAGE = SLICE_BYTES / STEP, PER_SYSTEM_PAGE = SYSTEM_PAGE / STEP };

static unsigned resident_pages(const void* block) {
    unsigned char resident[SLICE_BYTES / SYSTEM_PAGE];
    unsigned count = 0;
    char* start = page_of(block)->start;
    CHECK(os_resident(start, SLICE_BYTES, resident));
    for (unsigned i = 0; i < sizeof resident; i++) count += resident[i] & 1;
    return count;
}

static void* fill_pages(void* argument) {
    (void)argument;
    static void* blocks[3 * PER_PAGE];
    uint64_t before = event_total(EVENT_POPULATE);
    for (unsigned i = 0; i < PER_PAGE; i++) {
        blocks[i] = kl_malloc(STEP);
        unsigned carved = i / PER_SYSTEM_PAGE + 1;
        unsigned resident = resident_pages(blocks[i]);
        CHECK(resident >= carved && resident <= 2 * carved);
    }
    bool populates = event_total(EVENT_POPULATE) > before;
    if (populates) CHECK(event_total(EVENT_POPULATE) == before + 3); // 2, 4 and 8 system pages
    before = event_total(EVENT_POPULATE);
    uint64_t faults = event_total(EVENT_INLINE_FAULTS);
    for (unsigned i = PER_PAGE; i < 3 * PER_PAGE; i++) blocks[i] = kl_malloc(STEP);
    if (populates) {
        CHECK(event_total(EVENT_POPULATE) == before + 4); // 8 system pages each
        CHECK(event_total(EVENT_INLINE_FAULTS) == faults);
    }
    for (unsigned i = 0; i < 3 * PER_PAGE; i++) kl_free(blocks[i]);
    return NULL;
}

// In a thread of its own, whose heap has not filled a page yet.
static void test_populate_ahead(void) {
    pthread_t thread;
    kl_collect(true); // so that pages begin cold
    CHECK(pthread_create(&thread, NULL, fill_pages, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

// --- Pages of many classes -----------------------------------------------------------------------

enum { CLASSES = 24, WIDE_BYTES = 8192, OF_PAGE = SLICE_BYTES / WIDE_BYTES, PAGES = 16 };

// A thread uses many classes, then begins some pages of one other class: it may use the others
// again soon. Only after many more pages does it give up the others' pages.
static void* use_classes(void* argument) {
    (void)argument;
    static void* wide[4 * PAGES * OF_PAGE];
    void* small[CLASSES];
    for (size_t c = 0; c < CLASSES; c++) small[c] = kl_malloc(c < 16 ? 16 * (c + 1) : 32 * (c - 7));
    for (size_t c = 0; c < CLASSES; c++) kl_free(small[c]);
    unsigned used = thread_heap->class_count;
    CHECK(used >= CLASSES);
    for (unsigned i = 0; i < PAGES * OF_PAGE; i++) wide[i] = kl_malloc(WIDE_BYTES);
    CHECK(thread_heap->class_count >= used);
    for (unsigned i = PAGES * OF_PAGE; i < 4 * PAGES * OF_PAGE; i++)
        wide[i] = kl_malloc(WIDE_BYTES);
    CHECK(thread_heap->class_count <= RECLAIM_FEW_CLASSES + 2);
    for (unsigned i = 0; i < 4 * PAGES * OF_PAGE; i++) kl_free(wide[i]);
    return NULL;
}

static void test_classes_stay(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_classes, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

// --- Warm pages ----------------------------------------------------------------------------------

// On resident memory, blocks larger than a system page do not need a refill each.
static void* carve_warm(void* argument) {
    (void)argument;
    enum { BYTES = 5000, BLOCKS = 12 };
    void* blocks[BLOCKS];
    kl_free(kl_malloc(64)); // the thread has a heap
    uint64_t carves = atomic_get(&thread_heap->counts[HEAP_CARVES]);
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = kl_malloc(BYTES);
    CHECK(atomic_get(&thread_heap->counts[HEAP_CARVES]) == carves + BLOCKS / CARVE_WARM_MIN);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    return NULL;
}

static void test_carve_warm(void) {
    pthread_t thread;
    if (kl_warm((size_t)4 << 20) < (size_t)4 << 20) return; // before Linux 5.14
    CHECK(pthread_create(&thread, NULL, carve_warm, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    (void)kl_warm(0);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    test_idle_maintenance();
    test_populate_ahead();
    if (!KEEL_SECURE) test_classes_stay();
    test_carve_warm();
    check_work_bounds();
    return 0;
}

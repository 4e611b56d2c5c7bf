// Promises of the slow paths beyond their bounds: they do no housekeeping on realtime threads,
// memory reported as zero is zero, the huge zone opens and closes by whole units, and the report
// counts every call.
#include "allocator/heap/pool.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include <pthread.h>
#include <string.h>

static uint64_t event(enum event which) {
    return event_total(which);
}

// --- realtime ---

enum { RT_BLOCKS = 8000, RT_BYTES = 112 }; // 14 slices; three of them may begin cold elsewhere

static void* realtime_thread(void* argument) {
    (void)argument;
    static void* blocks[RT_BLOCKS];
    memset(blocks, 0xFF, sizeof blocks);
    CHECK(kl_thread_set_realtime((size_t)1 << 20));
    CHECK(heap_is_realtime(thread_heap));
    CHECK(kl_thread_set_realtime((size_t)1 << 30)); // as much as there may be
    CHECK(atomic_get(&thread_heap->spare_wanted) == HEAP_SPARE_MAX);

    uint64_t calls = event(EVENT_INLINE_CALLS);
    uint64_t faults = event(EVENT_INLINE_FAULTS);
    uint64_t misses = event(EVENT_RESERVE_MISS);
    for (unsigned i = 0; i < RT_BLOCKS; i++) blocks[i] = kl_malloc(RT_BYTES);
    CHECK(event(EVENT_INLINE_CALLS) == calls);
    CHECK(event(EVENT_INLINE_FAULTS) == faults);
    CHECK(event(EVENT_RESERVE_MISS) == misses);
    // Frees that make pages empty give nothing back to the system here, keeper or not.
    for (unsigned i = 0; i < RT_BLOCKS; i++) kl_free(blocks[i]);
    CHECK(event(EVENT_INLINE_CALLS) == calls);
    kl_thread_idle(); // may fill the spare up again
    return NULL;
}

static void test_realtime(void) {
    pthread_t thread;
    size_t live = run_live_slices();
    CHECK(pthread_create(&thread, NULL, realtime_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    kl_collect(true);
    CHECK(run_live_slices() <= live + 4); // the spare went back with the thread
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all)
        CHECK(!heap_is_realtime(heap));
    CHECK(run_check());
}

// --- zero memory ---

static bool all_zero(const char* block, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (block[i] != 0) return false;
    }
    return true;
}

// Blocks of all sizes, from memory that was warmed, that is new, and that was used and dirtied.
static void test_calloc_is_zero(void) {
    enum { ROUNDS = 3, COUNT = 400 };
    static char* blocks[COUNT];
    CHECK(kl_warm((size_t)4 << 20) == (size_t)4 << 20);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t size = 1; size < (size_t)300 << 10; size = size * 3 / 2 + 7) {
            unsigned count = size < 4096 ? COUNT : 20;
            for (unsigned i = 0; i < count; i++) {
                blocks[i] = kl_calloc(1, size);
                CHECK(blocks[i] != NULL && all_zero(blocks[i], size));
                memset(blocks[i], 0xA5, size);
            }
            for (unsigned i = 0; i < count; i += 2) kl_free(blocks[i]);
            for (unsigned i = 0; i < count; i += 2) {
                blocks[i] = kl_calloc(size, 1);
                CHECK(blocks[i] != NULL && all_zero(blocks[i], size));
                memset(blocks[i], 0x5A, size);
            }
            for (unsigned i = 0; i < count; i++) kl_free(blocks[i]);
        }
        if (round == 1) kl_collect(true); // the system has zeroed the dirty slices
    }
    (void)kl_warm(0);
    CHECK(run_check());
}

// --- the huge zone ---

static unsigned open_units(void) {
    unsigned units = 0;
    for (size_t i = 0; i < atomic_get(&windows.count); i++) {
        struct window* window = window_at(i);
        if (atomic_get(&window->chosen) == 0) continue;
        for (unsigned j = HUGE_ZONE_FIRST; j < WINDOW_SUPERBLOCKS; j++)
            units += bit_count(atomic_get(&window->superblocks[j].open)) / HUGE_SLICES;
    }
    return units;
}

static void test_huge_zone(void) {
    enum { UNITS = 8, BLOCK = 32768, COUNT = UNITS * 64 };
    static char* blocks[COUNT];
    kl_collect(true);
    unsigned before = open_units();
    CHECK(kl_warm((size_t)UNITS << 21) == (size_t)UNITS << 21);
    unsigned opened = open_units() - before;
    if (opened == 0) return; // the system gives no whole window: no such zone
    CHECK(opened >= UNITS - 1);
    uint64_t faults = event(EVENT_INLINE_FAULTS);
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = kl_calloc(1, BLOCK);
        CHECK(blocks[i] != NULL && all_zero(blocks[i], BLOCK));
        memset(blocks[i], 1, BLOCK);
    }
    CHECK(event(EVENT_INLINE_FAULTS) <= faults + 3 * 8); // a class's first pages may begin cold
    for (unsigned i = 0; i < COUNT; i++) kl_free(blocks[i]);
    (void)kl_warm(0);
    kl_collect(true);
    for (unsigned i = 0; i < 1000 && reserve_discard(32) > 0; i++) continue; // by units
    CHECK(open_units() < before + opened);
    CHECK(run_check());
}

// A block that leaves its slices there takes their memory along; no thread may touch the rest, or
// the fault that makes 2 MiB zero would be a thread's of the program.
// True: the units were closed, and the keeper has opened no other one at the same time.
static bool huge_zone_is_left_closed(void) {
    enum { BLOCKS = 40 };
    const size_t mib = (size_t)1 << 20;
    static char* blocks[BLOCKS];
    kl_collect(true);
    if (kl_warm(64 * mib) < 64 * mib || open_units() < 8) return true; // no whole window
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = kl_malloc(8 * mib);
    unsigned first = 0; // one in the zone, with a neighbour behind
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t at = (uintptr_t)blocks[i] % WINDOW_BYTES;
        for (unsigned j = 0; j < BLOCKS; j++) {
            bool neighbours = blocks[j] == blocks[i] + 8 * mib;
            struct window* window = window_find(blocks[i]);
            bool zone = at >= HUGE_ZONE_FIRST * SUPERBLOCK_BYTES && window != NULL &&
                        atomic_get(&window->chosen) != 0;
            if (neighbours && zone) first = i;
        }
    }
    char* block = blocks[first];
    CHECK((uintptr_t)block % WINDOW_BYTES >= HUGE_ZONE_FIRST * SUPERBLOCK_BYTES);
    memset(block, 1, 8 * mib);
    unsigned open = open_units();
    blocks[first] = kl_realloc(block, 16 * mib);
    CHECK(blocks[first] != NULL && blocks[first] != block && blocks[first][8 * mib - 1] == 1);
    bool closed = open_units() == open - 4 && run_check();
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    (void)kl_warm(0);
    kl_collect(true);
    CHECK(run_check());
    return closed;
}
static void test_huge_zone_is_left_closed(void) {
    unsigned tries = 0;
    while (!huge_zone_is_left_closed()) CHECK(++tries < 5);
}

// A block on slices that the heap has kept is not timed, as the readings of the clock would take as
// long as all else. In the secure flavour no heap keeps slices.
static uint64_t large_mallocs_timed(void) {
    uint64_t calls = 0;
    for (unsigned i = 0; i < SLOW_PATH_BUCKETS; i++)
        calls += atomic_get(&thread_heap->slow_paths.counts[SLOW_PATH_LARGE_MALLOC][i]);
    return calls;
}
static void test_kept_is_not_timed(void) {
    kl_free(kl_malloc(100000));
    uint64_t timed = large_mallocs_timed();
    for (unsigned i = 0; i < 100; i++) kl_free(kl_malloc(100000 + i));
    CHECK(large_mallocs_timed() == timed + (KEEL_SECURE ? 100 : 0));
}

// --- the report ---

static uint64_t figure(const char* json, const char* name) {
    const char* at = strstr(json, name);
    CHECK(at != NULL);
    return strtoull(at + strlen(name), NULL, 10);
}

static char json[65536];

static void test_report(void) {
    enum { COUNT = 10 * SLOW_PATH_LARGE_DRAWS };
    (void)kl_stats_json(json, sizeof json);
    uint64_t mallocs = figure(json, "\"large_malloc\":{\"calls\":");
    uint64_t frees = figure(json, "\"large_free\":{\"calls\":");
    for (unsigned i = 0; i < COUNT; i++) kl_free(kl_malloc(500000 + i));
    size_t length = kl_stats_json(json, sizeof json);
    CHECK(length < sizeof json && strlen(json) == length);
    CHECK(figure(json, "\"large_malloc\":{\"calls\":") == mallocs + COUNT);
    CHECK(figure(json, "\"large_free\":{\"calls\":") == frees + COUNT);

    // A path's histogram adds up to its calls.
    const char* path = strstr(json, "\"large_malloc\"");
    uint64_t sum = 0;
    for (const char* at = strstr(path, "[["); at != NULL && *at == '['; at = strchr(at, ']') + 2) {
        at = strchr(at, ',') + 1;
        sum += strtoull(at, NULL, 10);
        if (strchr(at, ']')[1] == ']') break;
    }
    CHECK(sum == mallocs + COUNT);

    // No count has gone below zero, which would show as one above 2^63.
    for (const char* at = json; (at = strchr(at, ':')) != NULL; at++) {
        if (at[1] >= '0' && at[1] <= '9') CHECK(strtoull(at + 1, NULL, 10) < UINT64_C(1) << 62);
    }
    int depth = 0;
    for (const char* at = json; *at != '\0'; at++) depth += (*at == '{') - (*at == '}');
    CHECK(depth == 0);
}

int main(void) {
    option_set(OPTION_LARGE_OS_PAGES, 1);    // it counts what kl_warm provides
    option_set(OPTION_KEEPER, KEEPER_NEVER); // run_check wants a world at rest
    test_calloc_is_zero();
    test_huge_zone();
    test_huge_zone_is_left_closed();
    test_realtime();
    test_kept_is_not_timed();
    test_report();
    check_work_bounds();
    return 0;
}

// kl_heap_visit of the calling thread's own heap: it reports exactly the live blocks, whichever
// thread has freed the others.
#include "check.h"
#include "memory.h"

#include <keel/heap.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <keel/statistics.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The blocks that a visit has reported, in the order of addresses, as documented.
enum { MOST = 300000 };
struct list {
    struct {
        char* block;
        size_t bytes;
    } entries[MOST];
    size_t count, areas, bytes, used_bytes, reserved_bytes;
};
static struct list before, after;

static bool note(const struct kl_heap_area* area, void* block, void* argument) {
    struct list* list = argument;
    char* start = area->blocks;
    if (block == NULL) {
        list->areas++;
        list->used_bytes += area->used_bytes;
        list->reserved_bytes += area->reserved_bytes;
        CHECK(area->used_bytes <= area->carved_bytes && area->carved_bytes <= area->reserved_bytes);
        CHECK(area->block_bytes > 0 && area->used_bytes % area->block_bytes == 0);
        return true;
    }
    CHECK(list->count < MOST);
    CHECK((char*)block >= start && (char*)block + area->block_bytes <= start + area->carved_bytes);
    CHECK(list->count == 0 || list->entries[list->count - 1].block < (char*)block);
    list->entries[list->count].block = block;
    list->entries[list->count++].bytes = area->block_bytes;
    list->bytes += area->block_bytes;
    return true;
}

static void visit(struct list* list) {
    list->count = list->areas = list->bytes = list->used_bytes = list->reserved_bytes = 0;
    CHECK(kl_heap_visit(kl_heap_backing(), true, note, list));
    CHECK_EQUAL(list->bytes, list->used_bytes);
}

// The reported size of a block; 0: it was not reported.
static size_t bytes_of(const struct list* list, const void* block) {
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->entries[middle].block < (const char*)block)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->entries[low].block == block ? list->entries[low].bytes : 0;
}

// The visit has reported the block, with its size. libkeel-secure gives blocks of 1,017 bytes to
// 64 KiB their exact size; the area of such a block has the size of its class.
static bool has(const struct list* list, const void* block) {
    size_t reported = bytes_of(list, block), usable = kl_usable_size(block);
    if (KEEL_SECURE && usable <= 65536 && reported > 1016) return reported >= usable;
    return reported == usable;
}

// Checks that the heap has the blocks that it had before and these (NULL: freed), with their sizes,
// and no others.
static void check_exactly(void* const* blocks, size_t count) {
    visit(&after);
    size_t live = 0;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i] == NULL) continue;
        live++;
        CHECK_WITH(has(&after, blocks[i]), "%zu: %zu of %zu", i, bytes_of(&after, blocks[i]),
                   kl_usable_size(blocks[i]));
        CHECK(bytes_of(&before, blocks[i]) == 0);
    }
    for (size_t i = 0; i < before.count; i++)
        CHECK(bytes_of(&after, before.entries[i].block) == before.entries[i].bytes);
    CHECK_EQUAL(after.count, before.count + live);
}

static const size_t large_sizes[] = {65537,   100000,   600000,   4 * MIB,
                                     5 * MIB, 15 * MIB, 20 * MIB, 70 * MIB};
enum { LARGE = sizeof large_sizes / sizeof *large_sizes, SMALL = 20000, COUNT = SMALL + 3 * LARGE };
static void* blocks[COUNT];

// Not 0 bytes: libkeel-secure gives these no memory, so no area has them.
static void* sized(size_t i) {
    if (i >= SMALL) {
        size_t size = large_sizes[(i - SMALL) % LARGE];
        if (i < SMALL + LARGE) return kl_malloc(size);
        return i < SMALL + 2 * LARGE ? kl_zalloc(size) : kl_aligned_alloc(1 * MIB, size);
    }
    if (i % 7 == 0) return kl_aligned_alloc((size_t)16 << (i % 9), 1 + i % 3000);
    return i % 5 == 0 ? kl_calloc(1 + i % 90, 8) : kl_malloc(1 + (i % 100 == 0 ? i * 3 : i % 700));
}

static void fill(void) {
    visit(&before);
    for (size_t i = 0; i < COUNT; i++) CHECK((blocks[i] = sized(i)) != NULL);
}

static void release(size_t i) {
    kl_free(blocks[i]);
    blocks[i] = NULL;
}

TEST(a_visit_reports_exactly_the_live_blocks) {
    fill();
    check_exactly(blocks, COUNT);
    for (size_t i = 0; i < COUNT; i += 3) release(i);
    check_exactly(blocks, COUNT);
    for (size_t i = 1; i < COUNT; i += 3)
        CHECK((blocks[i] = kl_realloc(blocks[i], i * 11)) != NULL);
    check_exactly(blocks, COUNT);
    for (size_t i = 0; i < COUNT; i++) release(i);
    check_exactly(blocks, COUNT);
}

TEST(resized_large_blocks_stay_in_their_heap) {
    visit(&before);
    void* block = kl_malloc(100000);
    for (size_t size = 100000; size < 300u * MIB; size = size * 3 / 2) {
        CHECK((block = kl_realloc(block, size)) != NULL);
        check_exactly(&block, 1);
    }
    for (size_t size = 300u * MIB; size > 1000; size /= 3) {
        CHECK((block = kl_realloc(block, size)) != NULL);
        check_exactly(&block, 1);
    }
    kl_free(block);
    check_exactly(NULL, 0);
}

TEST(a_visit_of_areas_reports_no_blocks) {
    fill();
    for (size_t i = 0; i < COUNT; i += 2) release(i);
    check_exactly(blocks, COUNT);
    static struct list areas;
    CHECK(kl_heap_visit(kl_heap_backing(), false, note, &areas));
    CHECK_EQUAL(areas.count, 0);
    CHECK_EQUAL(areas.areas, after.areas);
    CHECK_EQUAL(areas.used_bytes, after.bytes);
    CHECK_EQUAL(areas.reserved_bytes, after.reserved_bytes);
}

static bool stop_at(const struct kl_heap_area* area, void* block, void* left) {
    (void)area;
    return block == NULL || --*(size_t*)left > 0;
}

TEST(a_visit_ends_when_the_visitor_returns_false) {
    fill();
    size_t left = 1000;
    CHECK(!kl_heap_visit(kl_heap_backing(), true, stop_at, &left) && left == 0);
    for (size_t i = 0; i < COUNT; i++) release(i); // the heap is still usable
    check_exactly(blocks, COUNT);
}

static void* frees_every_other(void* unused) {
    for (size_t i = 0; i < COUNT; i += 2) release(i);
    return unused;
}

static void run(void* (*what)(void*)) {
    pthread_t thread;
    void* result;
    CHECK(pthread_create(&thread, NULL, what, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
}

// Makes the C library allocate what it keeps for each thread, also for the keeper's, before blocks
// are compared.
static void* nothing(void* unused) {
    return unused;
}
static void fill_for_threads(void) {
    run(nothing);
    CHECK(kl_keeper_start());
    fill();
}

TEST(blocks_freed_by_an_ended_thread_are_not_reported) {
    fill_for_threads();
    run(frees_every_other);
    check_exactly(blocks, COUNT);
}

// Not a barrier: a library for threads may allocate for it while others wait there.
static atomic_bool sent, stop;

static void* frees_and_sends(void* unused) {
    for (size_t i = 0; i < COUNT; i += 2) release(i);
    kl_thread_idle();
    sent = true;
    while (!stop) sleep_ms(1);
    return unused;
}

TEST(blocks_sent_by_a_running_thread_are_not_reported) {
    pthread_t thread;
    fill_for_threads();
    CHECK(pthread_create(&thread, NULL, frees_and_sends, NULL) == 0);
    while (!sent) sleep_ms(1);
    sleep_ms(300); // the keeper regards this heap as idle and sorts its remote frees
    check_exactly(blocks, COUNT);
    stop = true;
    CHECK(pthread_join(thread, NULL) == 0);
    check_exactly(blocks, COUNT);
}

static void* others[LARGE + 1000];

static void* allocates_its_own(void* unused) {
    visit(&before);
    CHECK(before.count < 100); // what the C library allocates for a thread
    for (size_t i = 0; i < LARGE; i++) others[i] = kl_malloc(large_sizes[i]);
    check_exactly(others, LARGE);
    for (size_t i = LARGE; i < LARGE + 1000; i++) others[i] = kl_malloc(i);
    check_exactly(others, LARGE + 1000);
    for (size_t i = 0; i < COUNT; i += 11)
        CHECK_WITH(!kl_heap_contains(kl_heap_backing(), blocks[i]) &&
                       !kl_heap_owns(kl_heap_backing(), blocks[i]),
                   "%zu", i);
    return unused;
}

TEST(another_threads_blocks_are_not_reported) {
    fill_for_threads();
    run(allocates_its_own);
    visit(&after);
    for (size_t i = 0; i < LARGE + 1000; i++) {
        CHECK_WITH(bytes_of(&after, others[i]) == 0, "%zu", i);
        CHECK(!kl_heap_contains(kl_heap_backing(), others[i]));
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_WITH(bytes_of(&after, blocks[i]) != 0, "%zu", i);
        CHECK(kl_heap_contains(kl_heap_backing(), blocks[i]));
    }
}

static bool free_it(const struct kl_heap_area* area, void* block, void* argument) {
    (void)area;
    if (block == NULL || bytes_of(&before, block) != 0) return true;
    CHECK(kl_malloc(100) != block);
    kl_free(block);
    ++*(size_t*)argument;
    return true;
}

TEST(the_visitor_may_allocate_and_free_reported_blocks) {
    fill();
    size_t freed = 0;
    CHECK(kl_heap_visit(kl_heap_backing(), true, free_it, &freed));
    CHECK_WITH(freed >= COUNT, "%zu", freed);
    visit(&after);
    for (size_t i = 0; i < after.count;
         i++) // blocks that the visitor allocated, some of which it freed
        CHECK(after.entries[i].bytes <= 128 || bytes_of(&before, after.entries[i].block) != 0);
}

static bool visit_inside(const struct kl_heap_area* area, void* block, void* depth) {
    (void)area;
    if (block != NULL || *(size_t*)depth != 0) return true;
    ++*(size_t*)depth;
    check_exactly(blocks, COUNT);
    pid_t child = fork();
    if (child == 0) {
        check_exactly(blocks, COUNT);
        _exit(0);
    }
    CHECK_CHILD(child);
    return true;
}

TEST(a_visitor_may_visit_and_fork) {
    fill_for_threads();
    for (size_t i = 0; i < COUNT; i += 5) release(i);
    size_t depth = 0;
    CHECK(kl_heap_visit(kl_heap_backing(), true, visit_inside, &depth) && depth == 1);
    run(frees_every_other); // its remote frees are collected as usual
    check_exactly(blocks, COUNT);
}

TEST(a_visit_works_with_another_default_heap) {
    fill();
    kl_heap_t* heap = kl_heap_new();
    CHECK(kl_heap_set_default(heap) == kl_heap_backing());
    for (size_t i = 0; i < COUNT; i += 2) release(i);
    for (size_t i = 0; i < 1000; i++) CHECK(kl_malloc(i * 100) != NULL);
    check_exactly(blocks, COUNT);
    CHECK(kl_heap_contains(kl_heap_backing(), blocks[1]));
    CHECK(kl_heap_set_default(kl_heap_backing()) == heap);
    kl_heap_destroy(heap);
    check_exactly(blocks, COUNT);
}

static bool allocates(const struct kl_heap_area* area, void* block, void* heap) {
    (void)block;
    char* text = kl_malloc(area->block_bytes + 1);
    CHECK(text != NULL && !kl_heap_contains(heap, text)); // from the thread's own heap
    kl_free(text);
    return true;
}

TEST(a_visit_of_the_default_heap_may_allocate) {
    kl_heap_t* heap = kl_heap_new();
    CHECK(kl_heap_set_default(heap) != NULL);
    for (size_t i = 0; i < 1000; i++) CHECK(kl_malloc(i * 100) != NULL);
    CHECK(kl_heap_visit(heap, true, allocates, heap));
    CHECK(kl_heap_default() == heap);
    kl_heap_destroy(heap);
}

static void* leaves_blocks(void* unused) {
    for (size_t i = 0; i < COUNT; i++) blocks[i] = sized(i);
    return unused;
}

static void* visits_what_was_left(void* unused) {
    CHECK(kl_malloc(1) != NULL); // from now on the thread has the heap of the ended one
    visit(&after);
    for (size_t i = 0; i < COUNT; i++) CHECK_WITH(has(&after, blocks[i]), "%zu", i);
    return unused;
}

TEST(a_thread_adopts_the_blocks_of_an_ended_one) {
    run(leaves_blocks);
    run(visits_what_was_left);
}

static void* frees_continuously(void* argument) {
    void* _Atomic* slots = argument;
    for (size_t i = 0; !stop; i++) {
        void* block = atomic_exchange(&slots[i % 512], NULL);
        if (block != NULL) kl_free(block);
    }
    return NULL;
}

// While other threads free, a visit is a snapshot; blocks that no thread frees are always reported.
TEST(a_visit_works_while_other_threads_free) {
    static void* _Atomic slots[512];
    static void* kept[4000];
    pthread_t threads[2];
    CHECK(kl_keeper_start());
    for (size_t i = 0; i < 4000; i++) kept[i] = kl_malloc(i % 100 == 0 ? 70000 : 1 + i % 3000);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, frees_continuously, slots) == 0);
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < 20000; i++) {
            void* block = atomic_exchange(&slots[i % 512], kl_malloc(i % 50 ? i % 900 : 100000));
            if (block != NULL) kl_free(block);
        }
        visit(&after);
        for (size_t i = 0; i < 4000; i++) CHECK_WITH(has(&after, kept[i]), "%zu", i);
    }
    stop = true;
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static bool add_large(const struct kl_size_stats* size, void* argument) {
    struct kl_size_stats* sum = argument;
    CHECK_EQUAL(size->allocated, size->freed + size->used);
    if (size->block_bytes <= 65536) return true;
    sum->allocated += size->allocated;
    sum->used += size->used;
    sum->used_bytes += size->used_bytes;
    return true;
}

TEST(large_blocks_are_in_a_threads_statistics) {
    struct kl_size_stats then = {0}, now = {0}, end = {0};
    size_t bytes = 0;
    CHECK(kl_malloc(1) != NULL);
    CHECK(kl_thread_stats_visit(add_large, &then));
    fill();
    for (size_t i = 0; i < COUNT; i++)
        bytes += kl_usable_size(blocks[i]) > 65536 ? kl_usable_size(blocks[i]) : 0;
    CHECK(kl_heap_stats_visit(kl_heap_backing(), add_large, &now));
    CHECK_EQUAL(now.used_bytes - then.used_bytes, bytes);
    CHECK_EQUAL(now.used - then.used, 3 * LARGE);
    CHECK_EQUAL(now.allocated - then.allocated, 3 * LARGE);
    for (size_t i = 0; i < COUNT; i++) release(i);
    CHECK(kl_thread_stats_visit(add_large, &end));
    CHECK_EQUAL(end.used, then.used);
    CHECK_EQUAL(end.allocated, now.allocated);
}

// keel/heap.h: user heaps.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/heap.h>
#include <keel/runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {0,     1,     16,     100,      1000,     9000,
                               40000, 70000, 600000, 5u * MIB, 20u * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST(blocks_of_a_heap_are_ordinary_blocks) {
    kl_heap_t* heap = kl_heap_new();
    for (size_t i = 0; i < SIZES; i++) {
        char* p = kl_heap_malloc(heap, sizes[i]);
        char* q = kl_heap_calloc(heap, 2, sizes[i]);
        CHECK(p != NULL && q != NULL && is_aligned(p, 8) && kl_usable_size(p) >= sizes[i]);
        for (size_t k = 0; k < 2 * sizes[i]; k++) CHECK(q[k] == 0);
        CHECK(kl_heap_contains(heap, p) && kl_heap_owns(heap, p) &&
              !kl_heap_contains(kl_heap_backing(), p));
        pattern_fill(p, sizes[i], i);
        p = kl_heap_realloc(heap, p, sizes[i] * 3 + 1);
        CHECK(p != NULL && pattern_holds(p, sizes[i], sizes[i], i) && kl_heap_contains(heap, p));
        kl_free(p);
        kl_free(q);
    }
    void* own = kl_malloc(10);
    CHECK(!kl_heap_contains(heap, own) && kl_heap_contains(kl_heap_backing(), own) &&
          !kl_heap_contains(heap, NULL));
    kl_free(own);
    kl_heap_delete(heap);
}

TEST(destroying_a_heap_ends_all_its_blocks) {
    for (int round = 0; round < 200; round++) {
        kl_heap_t* heap = kl_heap_new();
        for (size_t i = 0; i < 400; i++) memset(kl_heap_malloc(heap, 50 * i + 1), 1, 50 * i + 1);
        memset(kl_heap_malloc(heap, 5u * MIB), 1, 5u * MIB);
        memset(kl_heap_aligned_alloc_at(heap, 64, 8, 20u * MIB), 1, 20u * MIB);
        kl_free(kl_heap_malloc(heap, 30));
        kl_heap_destroy(heap);
    }
    kl_collect(true);
    CHECK_WITH(resident_bytes() < 48u * MIB, "%zu KiB", resident_bytes() / KIB);
}

static uint64_t held_bytes(void) {
    struct kl_process process;
    kl_process_info(&process);
    return process.held_bytes;
}

// A freed mapping that serves a smaller block is as large as before, or at most 256 KiB too large.
TEST(a_heap_exceeds_its_limit_by_little) {
    enum { LIMIT = 4 * MIB + 64 * KIB, EXCESS_MAX = 256 * KIB };
    for (size_t more = 0; more <= 512 * KIB; more += 32 * KIB) {
        kl_free(kl_malloc(4 * MIB + more));
        kl_heap_t* heap = kl_heap_new_with_limit(LIMIT);
        const uint64_t before = held_bytes();
        CHECK(kl_heap_malloc(heap, 4 * MIB) != NULL);
        CHECK_WITH(held_bytes() - before < LIMIT + EXCESS_MAX, "%zu KiB", more / KIB);
        CHECK(kl_heap_malloc(heap, 100000) == NULL);
        kl_heap_destroy(heap);
    }
}

TEST(deleting_a_heap_keeps_its_blocks) {
    enum { COUNT = 1000 };
    static char* blocks[COUNT];
    for (int round = 0; round < 20; round++) {
        kl_heap_t* heap = kl_heap_new();
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = i % 3 == 0 ? kl_heap_aligned_alloc_at(heap, 32, 8, i * 90)
                                   : kl_heap_malloc(heap, i * 90);
            pattern_fill(blocks[i], i * 90, i);
        }
        kl_heap_delete(heap);
        kl_heap_t* other = kl_heap_new();
        for (size_t i = 0; i < COUNT; i++) memset(kl_heap_malloc(other, i), 1, i);
        kl_heap_destroy(other);
        for (size_t i = 0; i < COUNT; i++) {
            CHECK(pattern_holds(blocks[i], i * 90, i * 90, i));
            kl_free(blocks[i]);
        }
    }
    kl_collect(true);
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

struct crew {
    kl_heap_t* heap;
    void* volatile passed[4][64];
    unsigned index;
    pthread_t thread;
};
static struct crew crews[4];

// All threads allocate from one heap and free blocks that others have allocated.
static void* work(void* argument) {
    struct crew* crew = argument;
    unsigned random = crew->index + 1;
    for (int i = 0; i < 30000; i++) {
        random = random * 1664525u + 1013904223u;
        size_t size = (random >> 8) % (i % 100 == 0 ? 200000 : 2000) + sizeof(size_t);
        size_t* p = kl_heap_malloc(crew->heap, size);
        CHECK(p != NULL);
        memset(p, 0, size);
        p[0] = size;
        struct crew* other = &crews[random >> 4 & 3];
        size_t* q = __atomic_exchange_n(&other->passed[0][random >> 10 & 63], p, __ATOMIC_ACQ_REL);
        if (q == NULL) continue;
        for (size_t k = sizeof(size_t); k < q[0]; k++) CHECK(((char*)q)[k] == 0);
        kl_free(q);
    }
    return NULL;
}

TEST(any_thread_can_use_any_heap) {
    kl_heap_t* heap = kl_heap_new();
    for (unsigned i = 0; i < 4; i++) {
        crews[i].heap = heap;
        crews[i].index = i;
        CHECK(pthread_create(&crews[i].thread, NULL, work, &crews[i]) == 0);
    }
    for (unsigned i = 0; i < 4; i++) pthread_join(crews[i].thread, NULL);
    kl_heap_destroy(heap);
}

TEST(malloc_allocates_from_the_default_heap) {
    kl_heap_t* heap = kl_heap_new();
    void* before = kl_malloc(100);
    CHECK(kl_heap_default() == kl_heap_backing());
    CHECK(kl_heap_set_default(heap) == kl_heap_backing());
    CHECK(kl_heap_default() == heap);
    for (size_t i = 0; i < SIZES; i++) {
        void* p = kl_malloc(sizes[i]);
        void* q = kl_calloc(1, sizes[i]);
        void* r = kl_aligned_alloc(64, sizes[i]);
        p = kl_realloc(p, sizes[i] + 100);
        CHECK(kl_heap_contains(heap, p) && kl_heap_contains(heap, q) && kl_heap_contains(heap, r));
        void* own = kl_heap_malloc(kl_heap_backing(), sizes[i]);
        CHECK(!kl_heap_contains(heap, own));
        kl_free(own);
        kl_free(p);
    }
    kl_free(before);
    kl_collect(true);
    kl_thread_idle();
    kl_heap_destroy(heap);
    CHECK(kl_heap_default() == kl_heap_backing());
    void* after = kl_malloc(100);
    CHECK(kl_heap_contains(kl_heap_backing(), after));
    kl_free(after);
}

static void* ends_with_another_default(void* heap) {
    (void)kl_heap_set_default(heap);
    return kl_malloc(77);
}

TEST(a_thread_may_end_with_another_default) {
    kl_heap_t* heap = kl_heap_new();
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        void* block;
        CHECK(pthread_create(&thread, NULL, ends_with_another_default, heap) == 0);
        CHECK(pthread_join(thread, &block) == 0 && kl_heap_contains(heap, block));
        kl_free(block);
    }
    kl_heap_delete(heap);
}

struct seen {
    size_t areas, blocks, bytes, used_bytes, limit;
    uintptr_t sum;
};

static bool look(const struct kl_heap_area* area, void* block, void* argument) {
    struct seen* seen = argument;
    if (block == NULL) {
        seen->areas++;
        seen->used_bytes += area->used_bytes;
        CHECK(area->used_bytes <= area->carved_bytes && area->carved_bytes <= area->reserved_bytes);
        return true;
    }
    seen->blocks++;
    seen->bytes += area->block_bytes;
    seen->sum += (uintptr_t)block;
    return seen->blocks != seen->limit;
}

TEST(a_visit_reports_exactly_the_live_blocks) {
    kl_heap_t* heap = kl_heap_new();
    uintptr_t sum = 0;
    for (size_t i = 0; i < 5000; i++) {
        void* p = kl_heap_malloc(heap, i % 1000 == 999 ? 100000 * (i / 1000 + 1) : i % 700);
        if (i % 3 == 0)
            kl_free(p);
        else
            sum += (uintptr_t)p;
    }
    struct seen seen = {0};
    CHECK(kl_heap_visit(heap, true, look, &seen));
    CHECK_EQUAL(seen.blocks, 5000 - 1667);
    CHECK(seen.sum == sum && seen.bytes == seen.used_bytes);
    struct seen areas = {0};
    CHECK(kl_heap_visit(heap, false, look, &areas) && areas.blocks == 0 &&
          areas.areas == seen.areas);
    struct seen some = {.limit = 10};
    CHECK(!kl_heap_visit(heap, true, look, &some) && some.blocks == 10);
    kl_heap_destroy(heap);
}

TEST(every_form_allocates_from_the_heap) {
    kl_heap_t* heap = kl_heap_new();
    char* blocks[] = {
        kl_heap_zalloc(heap, 10),
        kl_heap_mallocn(heap, 3, 10),
        kl_heap_reallocn(heap, NULL, 3, 10),
        kl_heap_reallocf(heap, NULL, 10),
        kl_heap_rezalloc(heap, NULL, 10),
        kl_heap_recalloc(heap, NULL, 3, 10),
        kl_heap_strdup(heap, "string"),
        kl_heap_strndup(heap, "string", 3),
        kl_heap_realpath(heap, "/", NULL),
        kl_heap_aligned_alloc(heap, 64, 10),
        kl_heap_aligned_calloc(heap, 64, 3, 10),
        kl_heap_aligned_realloc(heap, NULL, 64, 10),
        kl_heap_aligned_rezalloc(heap, NULL, 64, 10),
        kl_heap_aligned_recalloc(heap, NULL, 64, 3, 10),
        kl_heap_aligned_alloc_at(heap, 64, 64, 10),
        kl_heap_aligned_calloc_at(heap, 64, 64, 3, 10),
        kl_heap_aligned_realloc_at(heap, NULL, 64, 64, 10),
        kl_heap_aligned_rezalloc_at(heap, NULL, 64, 64, 10),
        kl_heap_aligned_recalloc_at(heap, NULL, 64, 64, 3, 10),
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK_WITH(blocks[i] != NULL && kl_heap_contains(heap, blocks[i]), "%zu", i);
        CHECK_WITH(i < 9 || is_aligned(blocks[i], 64), "%zu", i);
        kl_free(blocks[i]);
    }
    int* numbers = kl_heap_calloc_of(heap, int, 4);
    numbers = kl_heap_recalloc_of(heap, numbers, int, 400);
    numbers = kl_heap_reallocn_of(heap, numbers, int, 40);
    CHECK(numbers[39] == 0 && kl_heap_contains(heap, numbers));
    CHECK(kl_heap_malloc_of(heap, int) && kl_heap_zalloc_of(heap, int) &&
          kl_heap_mallocn_of(heap, int, 3));
    errno = 0;
    CHECK(kl_heap_reallocf(heap, numbers, SIZE_MAX) == NULL && errno == ENOMEM);
    CHECK(kl_heap_malloc(heap, SIZE_MAX) == NULL && kl_heap_aligned_alloc(heap, 24, 8) == NULL &&
          errno == EINVAL);
    kl_heap_collect(heap, true);
    kl_heap_collect(kl_heap_backing(), false);
    kl_heap_destroy(heap);
}

TEST_DIES(a_second_free_of_a_large_block_of_a_heap_is_detected, SIGABRT,
          "keel: free of a block that is not allocated") {
    kl_heap_t* heap = kl_heap_new();
    void* p = kl_heap_malloc(heap, 700000);
    kl_free(p);
    kl_free(p);
}

// The fault is found while the heap is locked.
static kl_heap_t* faulty;
static void uses_the_heap(int number) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) kl_free(kl_heap_malloc(faulty, 100));
        _exit(0);
    }
    CHECK_CHILD(child);
    for (int i = 0; i < 100; i++) kl_free(kl_heap_malloc(faulty, 100));
    kl_heap_destroy(faulty);
    _exit(number == SIGABRT ? 0 : 1);
}
TEST(a_handler_of_a_fault_may_use_the_heap) {
    faulty = kl_heap_new();
    char* p = kl_heap_malloc(faulty, 100);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        signal(SIGABRT, uses_the_heap);
        kl_free(p + 16);
        _exit(1);
    }
    CHECK_CHILD(child);
    kl_heap_destroy(faulty);
}

static bool allocates_and_frees(const struct kl_heap_area* area, void* block, void* bytes) {
    CHECK(area != NULL && (block == NULL || bytes != NULL));
    kl_free(kl_malloc(*(size_t*)bytes));
    return true;
}

// In the debug flavour, freed blocks of the heap wait for room for those of the visitor.
TEST(a_visitor_may_free_while_blocks_of_the_heap_are_kept) {
    kl_heap_t* heap = kl_heap_new();
    size_t bytes = 50000;
    void* blocks[2000];
    for (int i = 0; i < 2000; i++) blocks[i] = kl_heap_malloc(heap, 100);
    for (int i = 0; i < 1000; i++) kl_free(blocks[i]);
    CHECK(kl_heap_visit(heap, true, allocates_and_frees, &bytes));
    for (int i = 1000; i < 2000; i++) kl_free(blocks[i]);
    kl_heap_destroy(heap);
}

static bool asks_for_a_report(const struct kl_heap_area* area, void* block, void* length) {
    CHECK(area != NULL && block == NULL);
    *(size_t*)length = kl_stats_json(NULL, 0);
    return true;
}
TEST(a_visitor_may_ask_for_the_statistics_of_the_process) {
    kl_heap_t* heap = kl_heap_new();
    size_t length = 0;
    CHECK(kl_heap_malloc(heap, 100) != NULL);
    CHECK(kl_heap_visit(heap, false, asks_for_a_report, &length) && length > 0);
    kl_heap_destroy(heap);
}

static atomic_bool visits_end;
static void* keeps_visiting(void* heap) {
    size_t bytes = 50;
    for (; !visits_end; usleep(100)) CHECK(kl_heap_visit(heap, true, allocates_and_frees, &bytes));
    return NULL;
}
TEST(a_process_forks_while_a_visitor_allocates) {
    kl_heap_t* heap = kl_heap_new();
    pthread_t thread;
    for (int i = 0; i < 200; i++) CHECK(kl_heap_malloc(heap, 100) != NULL);
    CHECK(pthread_create(&thread, NULL, keeps_visiting, heap) == 0);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK_CHILD(child);
    }
    visits_end = true;
    CHECK(pthread_join(thread, NULL) == 0);
    kl_heap_destroy(heap);
}

static void* keeps_allocating(void* heap) {
    for (;;) kl_free(kl_heap_malloc(heap, 3000));
    return NULL;
}

TEST(every_heap_is_usable_in_a_forked_child) {
    kl_heap_t* heap = kl_heap_new();
    pthread_t thread;
    void* kept = kl_heap_malloc(heap, 100);
    CHECK(pthread_create(&thread, NULL, keeps_allocating, heap) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (size_t k = 0; k < 100; k++) CHECK(kl_heap_malloc(heap, k * 100) != NULL);
            kl_free(kept);
            kl_heap_destroy(heap);
            _exit(0);
        }
        CHECK_CHILD(child);
    }
}

// ---- a handler of another library (pthread_atfork), registered before Keel's ----

static _Atomic bool handler_on;
static kl_heap_t* old_heap;
static kl_heap_t* made_in_handler;

static void handler_uses_heaps(void) {
    if (!handler_on) return;
    made_in_handler = kl_heap_new();
    CHECK(made_in_handler != NULL);
    for (size_t i = 0; i < SIZES; i++) {
        char* p = kl_heap_malloc(old_heap, sizes[i]);
        char* q = kl_heap_malloc(made_in_handler, sizes[i]);
        CHECK(p != NULL && q != NULL);
        kl_free(p);
        kl_free(q);
    }
}

static void register_handler(void) {
    CHECK(pthread_atfork(handler_uses_heaps, handler_uses_heaps, handler_uses_heaps) == 0);
}
CHECK_AT_START(register_handler);

static void* use_heaps(void* argument) {
    (void)argument;
    for (int i = 0; i < 100; i++) {
        kl_free(kl_heap_malloc(old_heap, 100));
        kl_free(kl_heap_malloc(made_in_handler, 100));
    }
    return NULL;
}

TEST(handlers_of_other_libraries_use_heaps_in_a_fork) {
    pthread_t thread;
    old_heap = kl_heap_new();
    for (int i = 0; i < 20; i++) {
        handler_on = true;
        pid_t child = fork();
        handler_on = false;
        if (child == 0) {
            alarm(20); // a lock that stays held would hang it
            (void)use_heaps(NULL);
            _exit(0);
        }
        CHECK_CHILD(child);
        CHECK(pthread_create(&thread, NULL, use_heaps, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        kl_heap_destroy(made_in_handler);
    }
}

TEST(a_heap_whose_freed_blocks_are_zeroed_ends) {
    enum { COUNT = 300 };
    void* blocks[COUNT];
    kl_option_set(kl_option_zero_on_free, 1); // before the first block
    for (unsigned round = 0; round < 20; round++) {
        kl_heap_t* heap = kl_heap_new();
        CHECK(heap != NULL);
        for (unsigned i = 0; i < COUNT; i++)
            CHECK((blocks[i] = kl_heap_malloc(heap, 1 + i * 37 % 1000)) != NULL);
        for (unsigned i = 0; i < COUNT; i++) kl_free(blocks[i]);
        kl_heap_delete(heap);
    }
}

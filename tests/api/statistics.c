// keel/statistics.h: what is counted, and that the sums are consistent.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/runtime.h>
#include <keel/statistics.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sum {
    uint64_t allocated, freed, used, used_bytes, reserved_bytes, pages;
    uint64_t last_block_bytes;
    struct kl_size_stats of_1000; // the row of blocks of 1000 bytes
    bool after_reset;             // blocks that were live at the reset are not in `allocated`
};

static bool add(const struct kl_size_stats* size, void* argument) {
    struct sum* sum = argument;
    CHECK(size->block_bytes > sum->last_block_bytes);
    CHECK_WITH(size->allocated < UINT64_C(1) << 62 && size->freed < UINT64_C(1) << 62 &&
                   size->used < UINT64_C(1) << 62,
               "%llu bytes: %llu %llu %llu", (unsigned long long)size->block_bytes,
               (unsigned long long)size->allocated, (unsigned long long)size->freed,
               (unsigned long long)size->used);
    CHECK(sum->after_reset || size->allocated == size->freed + size->used);
    CHECK(size->used_bytes <= size->reserved_bytes &&
          size->used_bytes <= size->used * size->block_bytes);
    CHECK(size->block_bytes > 65536 || size->used_bytes == size->used * size->block_bytes);
    sum->last_block_bytes = size->block_bytes;
    sum->allocated += size->allocated;
    sum->freed += size->freed;
    sum->used += size->used;
    sum->used_bytes += size->used_bytes;
    sum->reserved_bytes += size->reserved_bytes;
    sum->pages += size->pages;
    if (size->block_bytes == kl_good_size(1000)) sum->of_1000 = *size;
    return true;
}

static struct sum of_process(void) {
    struct sum sum = {0};
    CHECK(kl_stats_visit(add, &sum));
    struct kl_process process;
    kl_process_info(&process);
    return sum;
}

TEST(every_block_is_counted_once) {
    static void* blocks[5000];
    struct random random = {3};
    struct sum before = of_process();
    uint64_t bytes = 0;
    uint64_t count_1000 = 0;
    for (size_t i = 0; i < 5000; i++) {
        size_t size = i % 5 == 0 ? 1000 : random_size(&random, i % 100 == 0 ? 3u * MIB : 20000);
        blocks[i] = kl_malloc(size);
        bytes += kl_usable_size(blocks[i]);
        count_1000 += kl_usable_size(blocks[i]) == kl_good_size(1000);
    }
    struct sum sum = of_process();
    CHECK_EQUAL(sum.allocated - before.allocated, 5000);
    CHECK_EQUAL(sum.used - before.used, 5000);
    CHECK_EQUAL(sum.freed, before.freed);
    if (KEEL_SECURE) // the sizes of their classes, at most an eighth more than the exact ones
        CHECK(sum.used_bytes - before.used_bytes >= bytes &&
              sum.used_bytes - before.used_bytes <= bytes + bytes / 8);
    else
        CHECK_EQUAL(sum.used_bytes - before.used_bytes, bytes);
    CHECK_EQUAL(sum.of_1000.used - before.of_1000.used, count_1000);
    struct kl_process process;
    kl_process_info(&process);
    CHECK(sum.reserved_bytes <= process.held_bytes && sum.used_bytes <= sum.reserved_bytes);
    for (size_t i = 0; i < 5000; i += 2) kl_free(blocks[i]);
    sum = of_process();
    CHECK_EQUAL(sum.freed - before.freed, 2500);
    CHECK_EQUAL(sum.used - before.used, 2500);
    for (size_t i = 1; i < 5000; i += 2) kl_free(blocks[i]);
    kl_collect(true);
    sum = of_process();
    CHECK_EQUAL(sum.allocated - before.allocated, 5000);
    CHECK_EQUAL(sum.used, before.used);
}

TEST(blocks_that_are_resized_stay_counted) {
    struct sum before = of_process();
    char* small = kl_malloc(10);
    char* large = kl_malloc(100000);
    char* huge = kl_malloc(100u * MIB);
    for (size_t i = 1; i < 40; i++) {
        small = kl_realloc(small, i * 1000);
        large = kl_realloc(large, i * 700000);
        huge = kl_realloc(huge, (100u + i * 10) * MIB);
        CHECK(small != NULL && large != NULL && huge != NULL);
        CHECK_EQUAL(of_process().used - before.used, 3);
    }
    huge = kl_realloc(huge, 90u * MIB);
    large = kl_realloc(large, 300000);
    CHECK_EQUAL(of_process().used - before.used, 3);
    kl_free(small);
    kl_free(large);
    kl_free(huge);
    CHECK_EQUAL(of_process().used, before.used);
}

TEST(statistics_of_a_thread_count_its_own_blocks) {
    struct sum sum = {0};
    struct kl_thread thread;
    kl_thread_info(&thread);
    kl_free(kl_malloc(1000));
    CHECK(kl_thread_stats_visit(add, &sum));
    struct sum before = sum;
    for (size_t i = 0; i < 777; i++) CHECK(kl_malloc(1000) != NULL);
    sum = (struct sum){0};
    CHECK(kl_thread_stats_visit(add, &sum) &&
          kl_heap_stats_visit(kl_heap_backing(), add, &(struct sum){0}));
    CHECK_EQUAL(sum.of_1000.allocated - before.of_1000.allocated, 777);
    CHECK_EQUAL(sum.of_1000.used - before.of_1000.used, 777);
    kl_thread_info(&thread);
    CHECK_EQUAL(thread.thread_id, syscall(SYS_gettid));
    CHECK(thread.allocated >= sum.allocated && thread.pages == sum.pages);
    CHECK(thread.refills > 0 && thread.pages_begun >= thread.pages);
}

TEST(statistics_of_a_heap_pass_to_the_process_when_it_ends) {
    struct sum before = of_process();
    kl_heap_t* heap = kl_heap_new();
    kl_heap_t* other = kl_heap_new();
    for (size_t i = 0; i < 3000; i++) {
        void* block = kl_heap_malloc(heap, 1000);
        CHECK(kl_heap_malloc(other, 64) != NULL);
        if (i % 3 == 0) kl_free(block);
    }
    void* large = kl_heap_malloc(heap, MIB);
    struct sum sum = {0};
    CHECK(kl_heap_stats_visit(heap, add, &sum));
    CHECK(sum.of_1000.allocated == 3000 && sum.of_1000.used == 2000);
    CHECK(sum.allocated == 3001 && sum.used == 2001);
    kl_free(large);
    sum = (struct sum){0};
    CHECK(kl_heap_stats_visit(heap, add, &sum));
    CHECK(sum.allocated == 3001 && sum.used == 2000 && sum.freed == 1001);
    kl_heap_destroy(heap);
    kl_heap_delete(other);
    struct sum after = of_process();
    CHECK(after.allocated - before.allocated >= 6001);
    CHECK(after.of_1000.used - before.of_1000.used <= 2); // Keel's own tables
    CHECK(after.of_1000.freed - before.of_1000.freed >= 3000);
}

static atomic_bool done;
static _Atomic(void*) places[256];
static void* allocates(void* seed) {
    struct random random = {(uintptr_t)seed};
    while (!done) {
        size_t size = random_size(&random, random_below(&random, 1000) == 0 ? MIB : 3000);
        kl_free(atomic_exchange(&places[random_below(&random, 256)], kl_malloc(size)));
    }
    return NULL;
}

// In the secure flavour such large blocks have hardly a usable byte.
TEST(aligned_blocks_of_zero_bytes_are_counted) {
    kl_heap_t* heap = kl_heap_new();
    struct sum sum = {0};
    for (size_t alignment = 32; alignment <= 4u * MIB; alignment *= 2)
        CHECK(kl_heap_aligned_alloc(heap, alignment, 0) != NULL);
    CHECK(kl_heap_stats_visit(heap, add, &sum));
    CHECK_EQUAL(sum.used, 18);
    kl_heap_destroy(heap);
}

TEST(no_number_is_negative_while_threads_work) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocates, (void*)(i + 1)) == 0);
    for (int i = 0; i < 200; i++) {
        struct sum sum = {.after_reset = i > 100};
        CHECK(kl_stats_visit(add, &sum));
        if (i >= 100 && i % 20 == 0) kl_stats_reset();
    }
    done = true;
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 256; i++) kl_free(places[i]);
    struct sum sum;
    // The keeper may be working on a heap of an ended thread; kl_collect then skips that heap.
    for (int waited = 0; waited < 60000; waited += 10) {
        kl_collect(true);
        sum = (struct sum){.after_reset = true};
        CHECK(kl_stats_visit(add, &sum));
        if (sum.used < 64) break;
        sleep_ms(10);
    }
    CHECK_WITH(sum.used < 64, "%llu", (unsigned long long)sum.used);
}

TEST(a_reset_restarts_the_counts) {
    for (int i = 0; i < 100; i++) CHECK(kl_malloc(1000) != NULL);
    struct sum before = of_process();
    CHECK(before.of_1000.allocated >= 100);
    kl_stats_reset();
    struct sum sum = {.after_reset = true};
    CHECK(kl_stats_visit(add, &sum));
    CHECK(sum.allocated == 0 && sum.freed == 0 && sum.used == before.used);
    for (int i = 0; i < 30; i++) {
        void* block = kl_malloc(i % 2 == 0 ? 1000 : 200000);
        if (i % 3 == 0) kl_free(block);
    }
    sum = (struct sum){.after_reset = true};
    CHECK(kl_stats_visit(add, &sum));
    CHECK(sum.allocated == 30 && sum.freed == 10 && sum.used == before.used + 20);
    CHECK(sum.of_1000.allocated == 15 && sum.of_1000.freed == 5);
}

static char text[65536];
static void listen(const char* piece, void* argument) {
    CHECK(argument == text);
    strncat(text, piece, sizeof text - strlen(text) - 1);
}

TEST(the_tables_name_sizes_threads_and_heaps) {
    char row[32];
    snprintf(row, sizeof row, "\n%12zu ", kl_good_size(1000));
    kl_heap_t* heap = kl_heap_new_with_limit(5u * MIB);
    CHECK(kl_heap_malloc(heap, 1000) != NULL && kl_malloc(300000) != NULL);
    kl_stats_print(listen, text);
    CHECK(strstr(text, "blocks of ") && strstr(text, row));
    CHECK(strstr(text, "\n     512 KiB ") && strstr(text, "\n         all "));
    CHECK(strstr(text, "\nthread ") && strstr(text, "\nheap ") && strstr(text, " 5.0 MiB\n"));
    CHECK(strstr(text, "slow paths"));
    text[0] = '\0';
    kl_heap_stats_print(heap, listen, text);
    char counts[96];
    snprintf(counts, sizeof counts, "%s            1             0           1 ", row);
    CHECK(strstr(text, counts));
    text[0] = '\0';
    kl_thread_stats_print(listen, text);
    CHECK(strstr(text, "keel statistics of this thread\n") == text);
}

TEST(the_json_is_complete_and_has_the_returned_length) {
    static char json[65536];
    kl_heap_t* heap = kl_heap_new();
    CHECK(kl_heap_malloc(heap, 100) != NULL && kl_malloc(1000) != NULL);
    size_t length = kl_stats_json(json, sizeof json);
    CHECK(length < sizeof json && strlen(json) == length);
    CHECK(strstr(json, "\"sizes\":[{\"block_bytes\":") &&
          strstr(json, "\"total\":{\"allocated\":"));
    CHECK(strstr(json, "\"threads\":[{\"thread_id\":") && strstr(json, "\"heaps\":[{\"address\":"));
    CHECK(strstr(json, "-") == NULL);
    int depth = 0;
    for (const char* at = json; *at != '\0'; at++) {
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        CHECK(depth > 0 || at[1] == '\0');
    }
    CHECK_EQUAL(kl_heap_stats_json(heap, NULL, 0), kl_heap_stats_json(heap, json, sizeof json));
    char expected[256];
    size_t bytes = kl_good_size(100);
    snprintf(expected, sizeof expected,
             "{\"sizes\":[{\"block_bytes\":%zu,\"allocated\":1,\"freed\":0,\"used\":1,"
             "\"used_bytes\":%zu,\"pages\":1,\"reserved_bytes\":65536}],\"total\":",
             bytes, bytes);
    CHECK(strstr(json, expected) == json);
    CHECK(kl_thread_stats_json(json, sizeof json) == strlen(json));
}

TEST(the_final_report_is_printed_on_request) {
    if (getenv("PRINTS_AT_END") != NULL) {
        free(kl_malloc(0) == NULL ? NULL : NULL);
        exit(0);
    }
    static const char* const names[] = {"KEEL_SHOW_STATS=1", "KEEL_STATS=1",
                                        "MIMALLOC_SHOW_STATS=1", "KEEL_NOTHING=1"};
    for (size_t i = 0; i < 4; i++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            setenv("PRINTS_AT_END", "1", 1);
            putenv((char*)names[i]);
            execl("/proc/self/exe", "statistics", "the_final_report_is_printed_on_request",
                  (char*)NULL);
            _exit(127);
        }
        close(ends[1]);
        size_t length = 0;
        ssize_t got;
        while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
            length += (size_t)got;
        text[length] = '\0';
        close(ends[0]);
        CHECK_CHILD(child);
        CHECK_WITH((strstr(text, "keel statistics\n") != NULL) == (i < 3), "%s: %s", names[i],
                   text);
    }
}

/* calloc returns zeros, independent of the earlier contents of the memory. realloc keeps the
 * contents, from every size to every size. */
#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <string.h>

#include "subject.h"

static const size_t sizes[] = {
    1,       7,       8,        9,        15,        16,        17,        24,
    40,      64,      100,      128,      129,       200,       256,       512,
    1000,    1024,    1025,     2048,     4000,      4096,      4097,      8192,
    8193,    16384,   20000,    32768,    65535,     65536,     65537,     100000,
    131072,  262144,  300000,   524288,   524289,    1000000,   1048576,   2097152,
    4194304, 4194305, 5u * MIB, 8u * MIB, 16u * MIB, 17u * MIB, 33u * MIB, 64u * MIB};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes };

static void make_dirty(size_t size, unsigned count) {
    static void* blocks[64];
    for (unsigned i = 0; i < count; i++) {
        CHECK((blocks[i] = malloc(size)) != NULL);
        memset(blocks[i], 0xEE, size);
    }
    for (unsigned i = 0; i < count; i++) free(blocks[i]);
}

TEST(calloc_is_zero_after_dirty_blocks_of_the_same_size) {
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        void* blocks[8];
        make_dirty(sizes[i], sizes[i] < 100000 ? 64 : 2);
        for (int k = 0; k < 8; k++) {
            CHECK((blocks[k] = calloc(1, sizes[i])) != NULL);
            CHECK_WITH(is_zero(blocks[k], sizes[i]), "size %zu, block %d", sizes[i], k);
            memset(blocks[k], 0xDD, sizes[i]);
            if (sizes[i] > MIB) {
                free(blocks[k]);
                blocks[k] = NULL;
            }
        }
        for (int k = 0; k < 8; k++) free(blocks[k]);
    }
}

// Memory changes its size class: a run of small blocks becomes a large block, and vice versa.
TEST(calloc_is_zero_after_dirty_blocks_of_other_sizes) {
    struct random random = {7};
    for (unsigned round = 0; round < 600; round++) {
        size_t size = random_size(&random, 2u * MIB);
        make_dirty(random_size(&random, 256u * KIB), 64);
        size_t count = 1 + random_below(&random, 9);
        char* p = calloc(count, size / count + 1);
        CHECK(p != NULL);
        CHECK_WITH(is_zero(p, (size / count + 1) * count), "%zu times %zu", count,
                   size / count + 1);
        memset(p, 0xAB, size);
        free(p);
    }
}

static void* dirty_and_free(void* argument) {
    void** blocks = argument;
    for (int i = 0; i < 1000; i++) {
        memset(blocks[i], 0xCC, 200);
        free(blocks[i]);
    }
    return NULL;
}

TEST(calloc_is_zero_after_another_thread_freed_dirty_blocks) {
    static void* blocks[1000];
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        for (int i = 0; i < 1000; i++) {
            CHECK((blocks[i] = calloc(4, 50)) != NULL);
            CHECK_WITH(is_zero(blocks[i], 200), "round %d, block %d", round, i);
        }
        CHECK(pthread_create(&thread, NULL, dirty_and_free, blocks) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void* resize(void* p, size_t size, int by_array) {
    // The count is 8 for sizes that are multiples of 8. reallocarray must behave like realloc.
    return by_array && size % 8 == 0 ? reallocarray(p, 8, size / 8) : realloc(p, size);
}

TEST(realloc_keeps_contents_from_every_size_to_every_size) {
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (size_t k = 0; k < SIZE_COUNT; k++) {
            size_t from = sizes[i], to = sizes[k], kept = from < to ? from : to;
            if (from + to > 8u * MIB && (i + k) % 4 != 0)
                continue; // touching so much memory takes too long
            char* p = malloc(from);
            CHECK(p != NULL);
            pattern_fill(p, from, i);
            char* q = resize(p, to, (int)(i + k) % 2);
            CHECK_WITH(q != NULL, "%zu to %zu", from, to);
            CHECK_WITH(is_aligned(q, to <= 8 ? 8 : 16), "%zu to %zu", from, to);
            CHECK_WITH(pattern_holds(q, kept, from, i), "%zu to %zu", from, to);
            pattern_fill(q, to, k);
            CHECK_WITH(pattern_holds(q, to, to, k), "%zu to %zu", from, to);
            free(q);
        }
    }
}

TEST(realloc_of_aligned_blocks_keeps_contents) {
    for (size_t alignment = 16; alignment <= 2u * MIB; alignment *= 4) {
        for (size_t i = 0; i < SIZE_COUNT && sizes[i] <= 5u * MIB; i += 3) {
            for (size_t k = 0; k < SIZE_COUNT && sizes[k] <= 5u * MIB; k += 4) {
                size_t kept = sizes[i] < sizes[k] ? sizes[i] : sizes[k];
                void* p = NULL;
                CHECK(posix_memalign(&p, alignment, sizes[i]) == 0);
                CHECK(is_aligned(p, alignment));
                pattern_fill(p, sizes[i], k);
                char* q = realloc(p, sizes[k]);
                CHECK_WITH(q != NULL, "%zu to %zu", sizes[i], sizes[k]);
                CHECK_WITH(pattern_holds(q, kept, sizes[i], k), "%zu: %zu to %zu", alignment,
                           sizes[i], sizes[k]);
                pattern_fill(q, sizes[k], i);
                free(q);
            }
        }
    }
}

TEST(realloc_of_null_is_malloc) {
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        char* p = realloc(NULL, sizes[i]);
        CHECK(p != NULL);
        pattern_fill(p, sizes[i], i);
        CHECK(malloc_usable_size(p) >= sizes[i]);
        free(p);
    }
}

TEST(growing_byte_by_byte_keeps_contents_and_neighbours) {
    unsigned char *p = NULL, *q = NULL;
    for (size_t size = 1; size <= 40000; size++) {
        CHECK((p = realloc(p, size)) != NULL);
        CHECK((q = realloc(q, size)) != NULL);
        p[size - 1] = (unsigned char)(size * 7);
        q[size - 1] = (unsigned char)(size * 11);
    }
    for (size_t size = 1; size <= 40000; size++) {
        CHECK_WITH(p[size - 1] == (unsigned char)(size * 7), "byte %zu", size - 1);
        CHECK_WITH(q[size - 1] == (unsigned char)(size * 11), "byte %zu", size - 1);
    }
    free(p);
    free(q);
}

TEST(doubling_to_a_quarter_gibibyte_and_back_keeps_contents) {
    char* p = malloc(1);
    pattern_fill(p, 1, 0);
    for (size_t size = 1; size < 256u * MIB; size *= 2) {
        CHECK((p = realloc(p, size * 2)) != NULL);
        CHECK_WITH(pattern_holds(p, size, size, size - 1), "grown from %zu", size);
        pattern_fill(p, size * 2, size * 2 - 1);
    }
    size_t filled = 256u * MIB;
    for (size_t size = filled; size > 1; size /= 2) {
        CHECK((p = realloc(p, size / 2)) != NULL);
        CHECK_WITH(pattern_holds(p, size / 2, filled, filled - 1), "shrunk to %zu", size / 2);
    }
    free(p);
}

TEST(many_blocks_grow_in_turn_and_keep_contents) {
    enum { COUNT = 300 };
    static char* blocks[COUNT];
    static size_t held[COUNT];
    struct random random = {11};
    for (unsigned round = 0; round < 30000; round++) {
        size_t i = random_below(&random, COUNT);
        size_t size = random_size(&random, random_below(&random, 50) ? 20000 : 3u * MIB);
        size_t kept = held[i] < size ? held[i] : size;
        CHECK((blocks[i] = realloc(blocks[i], size)) != NULL);
        CHECK_WITH(pattern_holds(blocks[i], kept, held[i], i), "block %zu: %zu to %zu", i, held[i],
                   size);
        pattern_fill(blocks[i], size, i);
        held[i] = size;
    }
}

struct passed {
    char* block;
    size_t size;
};

static void* realloc_for_others(void* argument) {
    struct passed* passed = argument;
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        size_t kept = passed[i].size, to = sizes[SIZE_COUNT - 1 - i];
        char* p = realloc(passed[i].block, to);
        CHECK(p != NULL);
        CHECK_WITH(pattern_holds(p, kept < to ? kept : to, kept, i), "%zu to %zu", kept, to);
        pattern_fill(p, to, i + 1);
        passed[i] = (struct passed){p, to};
    }
    return NULL;
}

TEST(realloc_of_another_threads_block_keeps_contents) {
    static struct passed passed[SIZE_COUNT];
    pthread_t thread;
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        passed[i] = (struct passed){malloc(sizes[i]), sizes[i]};
        CHECK(passed[i].block != NULL);
        pattern_fill(passed[i].block, sizes[i], i);
    }
    CHECK(pthread_create(&thread, NULL, realloc_for_others, passed) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        CHECK(pattern_holds(passed[i].block, passed[i].size, passed[i].size, i + 1));
        free(passed[i].block);
    }
}

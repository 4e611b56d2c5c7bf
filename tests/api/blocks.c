// keel/keel.h beyond the malloc family: offsets, zeroing resizes, usable sizes, C23, paths.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t sizes[] = {0,     1,     8,     24,     100,      1000,     5000,
                               40000, 65530, 70000, 600000, 5u * MIB, 20u * MIB};
#define FOR_EACH_SIZE(i) for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)

// Writes to memory that later blocks will use, so they are not zero by chance.
static void dirty(void) {
    void* blocks[200];
    FOR_EACH_SIZE(s) {
        unsigned count = sizes[s] > 100000 ? 2 : 200;
        for (unsigned i = 0; i < count; i++) {
            blocks[i] = kl_malloc(sizes[s]);
            CHECK(blocks[i] != NULL);
            memset(blocks[i], 0xA5, kl_usable_size(blocks[i]));
        }
        for (unsigned i = 0; i < count; i++) kl_free(blocks[i]);
    }
}

TEST(a_block_is_aligned_at_its_offset) {
    FOR_EACH_SIZE(s) {
        for (size_t alignment = 1; alignment <= 65536; alignment *= 4) {
            static const size_t offsets[] = {0, 1, 8, 24, 100, 4096, 65535, 1000000};
            for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
                char* p = kl_aligned_alloc_at(alignment, offsets[o], sizes[s]);
                CHECK_WITH(p != NULL, "%zu at %zu of %zu", alignment, offsets[o], sizes[s]);
                CHECK_WITH(is_aligned(p + offsets[o], alignment), "%zu, %zu", alignment,
                           offsets[o]);
                CHECK(kl_usable_size(p) >= sizes[s]);
                pattern_fill(p, kl_usable_size(p), s);
                CHECK(pattern_holds(p, kl_usable_size(p), kl_usable_size(p), s));
                CHECK(kl_contains(p));
                kl_free(p);
            }
        }
    }
}

TEST(blocks_at_an_offset_do_not_overlap) {
    enum { COUNT = 3000 };
    static char* blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = kl_aligned_alloc_at(64, 8 + 16 * (i % 3), 50 + i % 900);
        pattern_fill(blocks[i], 50 + i % 900, i);
    }
    for (size_t i = 0; i < COUNT; i++)
        CHECK(pattern_holds(blocks[i], 50 + i % 900, 50 + i % 900, i));
    for (size_t i = 0; i < COUNT; i += 2) kl_free(blocks[i]);
    for (size_t i = 1; i < COUNT; i += 2) {
        CHECK(pattern_holds(blocks[i], 50 + i % 900, 50 + i % 900, i));
        kl_free(blocks[i]);
    }
}

TEST(blocks_at_an_offset_can_be_resized_with_and_without_their_alignment) {
    FOR_EACH_SIZE(s) {
        FOR_EACH_SIZE(t) {
            if (sizes[t] == 0) continue;
            size_t kept = sizes[s] < sizes[t] ? sizes[s] : sizes[t];
            char* p = kl_aligned_alloc_at(128, 40, sizes[s]);
            pattern_fill(p, sizes[s], 3);
            p = kl_aligned_realloc_at(p, 128, 40, sizes[t]);
            CHECK(p != NULL && ((uintptr_t)p + 40) % 128 == 0);
            CHECK_WITH(pattern_holds(p, kept, sizes[s], 3), "%zu to %zu", sizes[s], sizes[t]);
            p = kl_realloc(p, sizes[s] + 1);
            CHECK(p != NULL && pattern_holds(p, kept, sizes[s], 3));
            kl_free(p);
        }
    }
}

TEST(an_invalid_alignment_fails) {
    errno = 0;
    CHECK(kl_aligned_alloc_at(24, 8, 100) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(kl_aligned_alloc_at(0, 0, 100) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(kl_aligned_alloc_at(131072, 8, 100) == NULL && errno == EINVAL);
    void* p = kl_aligned_alloc_at(131072, 262144, 100);
    CHECK(is_aligned(p, 131072));
    kl_free(p);
    errno = 0;
    CHECK(kl_aligned_alloc_at(64, 8, SIZE_MAX - 20) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(kl_aligned_calloc_at(64, 8, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
}

TEST(zeroing_resizes_zero_the_new_bytes) {
    dirty();
    FOR_EACH_SIZE(s) {
        FOR_EACH_SIZE(t) {
            if (sizes[t] == 0) continue;
            char* p = kl_zalloc(sizes[s]);
            memset(p, 1, sizes[s]);
            p = kl_rezalloc(p, sizes[t]);
            CHECK(p != NULL);
            CHECK_WITH(is_zero_between(p, sizes[s], sizes[t]), "%zu to %zu", sizes[s], sizes[t]);
            memset(p, 2, sizes[t]);
            size_t more = sizes[t] + sizes[t] / 9 + 1; // often fits in the same block
            p = kl_rezalloc(p, more);
            CHECK_WITH(is_zero_between(p, sizes[t], more), "%zu to %zu to %zu", sizes[s], sizes[t],
                       more);
            kl_free(p);
        }
    }
}

TEST(a_zeroing_resize_down_and_up_restores_no_old_bytes) {
    dirty();
    FOR_EACH_SIZE(s) {
        if (sizes[s] < 8) continue;
        char* p = kl_calloc(1, sizes[s]);
        memset(p, 7, sizes[s]);
        p = kl_recalloc(p, 1, sizes[s] - 5);
        p = kl_recalloc(p, 1, sizes[s]);
        CHECK_WITH(is_zero_between(p, sizes[s] - 5, sizes[s]) && p[0] == 7, "%zu", sizes[s]);
        kl_free(p);
    }
}

TEST(aligned_zeroing_resizes_align_and_zero) {
    dirty();
    FOR_EACH_SIZE(s) {
        char* p = kl_aligned_calloc(256, 1, sizes[s]);
        CHECK(is_aligned(p, 256) && is_zero_between(p, 0, sizes[s]));
        memset(p, 1, sizes[s]);
        p = kl_aligned_recalloc(p, 256, 2, sizes[s] + 9);
        CHECK(is_aligned(p, 256) && is_zero_between(p, sizes[s], 2 * sizes[s] + 18));
        p = kl_aligned_rezalloc(p, 256, 3 * sizes[s] + 30);
        CHECK(is_aligned(p, 256) && is_zero_between(p, sizes[s], 3 * sizes[s] + 30));
        kl_free(p);
        p = kl_aligned_calloc_at(256, 8, 1, sizes[s]);
        CHECK(is_aligned(p + 8, 256) && is_zero_between(p, 0, sizes[s]));
        memset(p, 1, sizes[s]);
        p = kl_aligned_rezalloc_at(p, 256, 8, 2 * sizes[s] + 9);
        CHECK(is_aligned(p + 8, 256) && is_zero_between(p, sizes[s], 2 * sizes[s] + 9));
        p = kl_aligned_recalloc_at(p, 256, 8, 3, sizes[s] + 9);
        CHECK(is_aligned(p + 8, 256) && is_zero_between(p, sizes[s], 3 * sizes[s] + 27));
        kl_free(p);
    }
}

// Such blocks have hardly a usable byte in the secure flavour.
TEST(a_block_of_zero_bytes_is_resized_as_asked) {
    kl_heap_t* heap = kl_heap_new();
    for (size_t alignment = 32; alignment <= 131072; alignment *= 2) {
        char* p = kl_aligned_realloc(kl_aligned_alloc(alignment, 0), alignment, 200000);
        CHECK_WITH(is_aligned(p, alignment), "%zu", alignment);
        kl_free(p);
        p = kl_heap_aligned_realloc(heap, kl_aligned_alloc(alignment, 0), alignment, 200000);
        CHECK_WITH(is_aligned(p, alignment) && kl_heap_contains(heap, p), "%zu", alignment);
        p = kl_heap_realloc(heap, kl_aligned_alloc(alignment, 0), 200000);
        CHECK_WITH(kl_heap_contains(heap, p), "%zu", alignment);
    }
    kl_heap_destroy(heap);
}

// What _FORTIFY_SOURCE compares with. An optimizing compiler knows it if a function states it.
TEST(the_compiler_does_not_forbid_the_reported_bytes) {
    size_t usable;
    char* p = kl_umalloc(20, &usable);
    CHECK_EQUAL(__builtin_object_size(p, 0), SIZE_MAX);
    p = kl_urealloc(p, 100, NULL, &usable);
    CHECK_EQUAL(__builtin_object_size(p, 0), SIZE_MAX);
    kl_ufree(p, NULL);
    p = kl_ucalloc(3, 9, &usable);
    CHECK_EQUAL(__builtin_object_size(p, 0), SIZE_MAX);
    kl_ufree(p, NULL);
}

TEST(usable_sizes_are_returned) {
    FOR_EACH_SIZE(s) {
        size_t usable = 1, before = 1, freed = 1;
        void* p = kl_umalloc(sizes[s], &usable);
        CHECK(usable >= sizes[s] && usable == kl_usable_size(p));
        memset(p, 1, usable);
        size_t good = kl_good_size(sizes[s]);
        CHECK(sizes[s] > 65536 ? sizes[s] <= good && good <= usable : good == usable);
        p = kl_urealloc(p, sizes[s] * 2 + 1, &before, &usable);
        CHECK(before >= sizes[s] && usable >= sizes[s] * 2 + 1 && usable == kl_usable_size(p));
        kl_ufree(p, &freed);
        CHECK_EQUAL(freed, usable);
        p = kl_ucalloc(3, sizes[s], &usable);
        CHECK(usable >= 3 * sizes[s] && is_zero_between(p, 0, 3 * sizes[s]));
        kl_ufree(p, NULL);
    }
    size_t usable = 1;
    CHECK(kl_umalloc(SIZE_MAX, &usable) == NULL && usable == 0);
}

TEST(sized_frees_free) {
    for (int i = 0; i < 200000; i++) {
        kl_free_sized(kl_malloc(3000), 3000);
        kl_free_aligned_sized(kl_aligned_alloc(64, 3000), 64, 3000);
    }
    kl_free_sized(NULL, 0);
    kl_free_aligned_sized(NULL, 64, 0);
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

TEST(typed_macros_return_the_type) {
    struct node {
        int a, b;
    };
    struct node* node = kl_zalloc_of(struct node);
    CHECK(node->a == 0 && node->b == 0);
    kl_free(node);
    node = kl_malloc_of(struct node);
    kl_free(node);
    int* numbers = kl_calloc_of(int, 10);
    numbers[9] = 5;
    numbers = kl_recalloc_of(numbers, int, 1000);
    CHECK(numbers[9] == 5 && numbers[999] == 0);
    numbers = kl_reallocn_of(numbers, int, 10);
    CHECK(numbers[9] == 5);
    kl_free(numbers);
    numbers = kl_mallocn_of(int, 10);
    CHECK(kl_usable_size(numbers) >= 10 * sizeof(int));
    kl_free(numbers);
}

TEST(realpath_matches_the_c_library) {
    char expected[PATH_MAX], given[PATH_MAX];
    CHECK(realpath(".", expected) != NULL);
    char* path = kl_realpath("./.", NULL);
    CHECK(path != NULL && strcmp(path, expected) == 0 && kl_contains(path));
    kl_free(path);
    CHECK(kl_realpath(".", given) == given && strcmp(given, expected) == 0);
    errno = 0;
    CHECK(kl_realpath("/no/such/place", NULL) == NULL && errno == ENOENT);
}

TEST(collect_returns_free_memory) {
    enum { COUNT = 2000 };
    static void* blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = kl_malloc(20000);
        memset(blocks[i], 1, 20000);
    }
    for (int i = 0; i < COUNT; i++) kl_free(blocks[i]);
    kl_collect(false);
    kl_collect(true);
    CHECK_WITH(resident_bytes() < 16u * MIB, "%zu KiB", resident_bytes() / KIB);
}

// Every function that accepts any address, with a block of each kind.
TEST(impossible_addresses_are_in_no_block) {
    kl_heap_t* heap = kl_heap_new();
    char* blocks[] = {kl_malloc(8),
                      kl_malloc(50000),
                      kl_malloc(700000),
                      kl_malloc(50u * MIB),
                      kl_heap_malloc(heap, 100),
                      kl_heap_malloc(heap, 200000),
                      kl_aligned_alloc_at(64, 8, 100)};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        size_t usable = kl_usable_size(blocks[i]);
        for (unsigned bit = 48; bit < 56; bit++) {
            void* alias = (void*)((uintptr_t)blocks[i] | (uintptr_t)1 << bit);
            size_t before = 1, after = 1;
            CHECK(kl_usable_size(alias) == 0 && kl_malloc_usable_size(alias) == 0);
            CHECK(!kl_contains(alias) && kl_expand(alias, 1) == NULL);
            CHECK(!kl_heap_contains(heap, alias) && !kl_heap_owns(heap, alias));
            CHECK(!kl_heap_contains(kl_heap_backing(), alias));
            CHECK(!kl_heap_owns(kl_heap_backing(), alias));
            CHECK(kl_realloc(alias, 100) == NULL && kl_reallocf(alias, 100) == NULL);
            CHECK(kl_realloc(alias, 0) == NULL && kl_rezalloc(alias, 100) == NULL);
            CHECK(kl_aligned_realloc(alias, 64, 100) == NULL);
            CHECK(kl_heap_realloc(heap, alias, 100) == NULL);
            CHECK(kl_heap_reallocf(heap, alias, 100) == NULL);
            CHECK(kl_urealloc(alias, 100, &before, &after) == NULL && before == 0 && after == 0);
            kl_ufree(alias, &before);
            CHECK(before == 0);
        }
        CHECK(kl_usable_size(blocks[i]) == usable && kl_contains(blocks[i]));
        kl_free(blocks[i]);
    }
    kl_heap_destroy(heap);
}

TEST_DIES(a_free_inside_a_block_is_detected_beside_offset_blocks, SIGABRT,
          "keel: free of an address inside a block: 0x") {
    kl_free(kl_aligned_alloc_at(64, 8, 100));
    char* p = kl_malloc(700000);
    kl_free(p + 64);
}

TEST(check_all_verifies_blocks_in_the_debug_flavour_only) {
    void* blocks[] = {kl_malloc(1), kl_malloc(5000), kl_malloc(500000)};
    size_t checked = kl_check_all();
    CHECK_WITH(KEEL_DEBUG ? checked >= 3 : checked == 0, "%zu blocks", checked);
    for (int i = 0; i < 3; i++) kl_free(blocks[i]);
}

// Where a sized free is verified, no size that realloc was given may end the process.
TEST(a_block_that_shrank_is_freed_with_its_size) {
    for (size_t size = 1; size < 300000; size = size * 5 / 4 + 1) {
        for (size_t after = 1; after < size; after = after * 5 / 4 + 1) {
            void* block = kl_realloc(kl_malloc(size), after);
            CHECK(block != NULL);
            kl_free_sized(block, after);
        }
    }
}

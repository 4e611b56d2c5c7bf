/* The aligned functions, their errors, and malloc_usable_size. */
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "subject.h"

static const size_t sizes[] = {0,      1,      8,        15,      16,       17,       24,
                               48,     100,    200,      640,     1000,     4095,     4096,
                               5000,   8192,   30000,    65536,   65537,    100000,   300000,
                               524288, 600000, 3u * MIB, 4194304, 5u * MIB, 17u * MIB};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes, PER_ALIGNMENT = 3 };

static void check_all_forms(size_t alignment) {
    static void* blocks[SIZE_COUNT * PER_ALIGNMENT];
    size_t count = 0;
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        size_t rounded = (sizes[i] + alignment - 1) & ~(alignment - 1);
        void* p = NULL;
        CHECK_EQUAL(posix_memalign(&p, alignment, sizes[i]), 0);
        blocks[count++] = p;
        blocks[count++] = memalign(alignment, sizes[i]);
        blocks[count++] = aligned_alloc(alignment, rounded); // C11 requires a multiple
        for (size_t k = count - PER_ALIGNMENT; k < count; k++) {
            CHECK_WITH(blocks[k] != NULL, "alignment %zu, size %zu, form %zu", alignment, sizes[i],
                       k % PER_ALIGNMENT);
            CHECK_WITH(is_aligned(blocks[k], alignment), "alignment %zu, size %zu: %p", alignment,
                       sizes[i], blocks[k]);
            CHECK_WITH(malloc_usable_size(blocks[k]) >= sizes[i], "alignment %zu, size %zu",
                       alignment, sizes[i]);
            pattern_fill(blocks[k], sizes[i], k);
        }
    }
    for (size_t k = 0; k < count; k++) {
        CHECK_WITH(pattern_holds(blocks[k], sizes[k / PER_ALIGNMENT], sizes[k / PER_ALIGNMENT], k),
                   "alignment %zu, size %zu", alignment, sizes[k / PER_ALIGNMENT]);
        free(blocks[k]);
    }
}

TEST(alignments_from_a_pointer_to_a_page) {
    for (size_t alignment = sizeof(void*); alignment <= 4096; alignment *= 2)
        check_all_forms(alignment);
}

TEST(alignments_from_a_page_to_four_mebibytes) {
    for (size_t alignment = 8192; alignment <= 4u * MIB; alignment *= 2) check_all_forms(alignment);
}

TEST(alignments_up_to_a_gibibyte) {
    for (size_t alignment = 8u * MIB; alignment <= 1024u * MIB; alignment *= 2) {
        for (size_t size = 1; size <= 100000; size *= 300) {
            char* p = memalign(alignment, size);
            CHECK_WITH(p != NULL, "alignment %zu, size %zu", alignment, size);
            CHECK_WITH(is_aligned(p, alignment), "alignment %zu, size %zu: %p", alignment, size,
                       (void*)p);
            pattern_fill(p, size, 1);
            free(p);
        }
    }
}

TEST(thousands_of_aligned_blocks_do_not_overlap_and_are_reused) {
    enum { COUNT = 3000 };
    static char* blocks[COUNT];
    static size_t held[COUNT];
    struct random random = {3};
    for (unsigned round = 0; round < 60000; round++) {
        size_t i = random_below(&random, COUNT);
        if (blocks[i]) {
            CHECK_WITH(pattern_holds(blocks[i], held[i], held[i], i), "size %zu", held[i]);
            free(blocks[i]);
            blocks[i] = NULL;
            continue;
        }
        size_t alignment = (size_t)8 << random_below(&random, 10);
        held[i] = random_size(&random, 10000);
        CHECK((blocks[i] = memalign(alignment, held[i])) != NULL);
        CHECK_WITH(is_aligned(blocks[i], alignment), "alignment %zu, size %zu", alignment, held[i]);
        pattern_fill(blocks[i], held[i], i);
    }
}

TEST(posix_memalign_rejects_invalid_alignments_and_keeps_the_pointer) {
    static const size_t wrong[] = {
        0, 1, 2, 4, 3, 5, 12, 24, 40, 100, 4097, 6000, SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        void* p = (void*)&p;
        CHECK_WITH(posix_memalign(&p, wrong[i], 100) == EINVAL, "alignment %zu", wrong[i]);
        CHECK_WITH(p == (void*)&p, "alignment %zu", wrong[i]);
    }
}

TEST(posix_memalign_without_memory_keeps_the_pointer) {
    void* p = (void*)&p;
    CHECK_EQUAL(posix_memalign(&p, 64, SIZE_MAX / 2 + 1), ENOMEM);
    CHECK_EQUAL(posix_memalign(&p, (size_t)1 << 62, 100), ENOMEM);
    CHECK_EQUAL(posix_memalign(&p, SIZE_MAX / 2 + 1, SIZE_MAX / 2), ENOMEM);
    CHECK(p == (void*)&p);
}

// Not a power of two: EINVAL (C17, newer glibc), or a block with a larger alignment (older glibc).
TEST(aligned_alloc_and_memalign_with_an_odd_alignment_fail_or_round_up) {
    static const size_t odd[] = {3, 12, 24, 40, 100, 1000};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        errno = 0;
        char* p = aligned_alloc(odd[i], odd[i] * 10);
        if (p) pattern_fill(p, odd[i] * 10, i);
        CHECK_WITH(p != NULL || errno == EINVAL, "alignment %zu", odd[i]);
        free(p);
        errno = 0;
        p = memalign(odd[i], 100);
        CHECK_WITH(p != NULL || errno == EINVAL, "alignment %zu", odd[i]);
        free(p);
    }
}

TEST(valloc_and_pvalloc_return_whole_pages) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        size_t rounded = (sizes[i] + page - 1) & ~(page - 1);
        char *p = valloc(sizes[i]), *q = pvalloc(sizes[i]);
        CHECK(p != NULL && q != NULL);
        CHECK_WITH(is_aligned(p, page) && is_aligned(q, page), "size %zu", sizes[i]);
        CHECK_WITH(malloc_usable_size(p) >= sizes[i], "size %zu", sizes[i]);
        CHECK_WITH(malloc_usable_size(q) >= rounded, "size %zu: %zu", sizes[i],
                   malloc_usable_size(q));
        pattern_fill(q, rounded, 1);
        pattern_fill(p, sizes[i], 2);
        CHECK(pattern_holds(q, rounded, rounded, 1));
        free(p);
        free(q);
    }
}

TEST(usable_size_of_null_is_zero) {
    CHECK_EQUAL(malloc_usable_size(NULL), 0);
}

TEST(all_of_the_usable_size_may_be_written) {
    enum { COUNT = 4000 };
    static void* blocks[COUNT];
    static size_t usable[COUNT];
    struct random random = {5};
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i < 2100 ? i : random_size(&random, i % 50 ? 40000 : 2u * MIB);
        CHECK((blocks[i] = i % 7 == 3 ? memalign(64u << (i % 6), size) : malloc(size)) != NULL);
        usable[i] = malloc_usable_size(blocks[i]);
        CHECK_WITH(usable[i] >= size, "size %zu, usable %zu", size, usable[i]);
        pattern_fill(blocks[i], usable[i], i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_WITH(pattern_holds(blocks[i], usable[i], usable[i], i), "usable %zu", usable[i]);
        CHECK(malloc_usable_size(blocks[i]) == usable[i]);
        free(blocks[i]);
    }
}

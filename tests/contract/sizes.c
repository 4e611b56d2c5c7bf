/* Guarantees of malloc and calloc for every size: blocks are aligned and writable and do not
 * overlap, and impossible sizes fail. */
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "subject.h"

enum { EVERY_SIZE_UP_TO = 4500 };

static void* blocks[20000];

// A block needs only the alignment of objects that fit into it. No object of 8 bytes needs an
// alignment of 16.
static size_t required_alignment(size_t size) {
    return size <= 8 ? 8 : 16;
}

TEST(blocks_of_every_size_are_aligned_writable_and_do_not_overlap) {
    for (size_t size = 1; size < EVERY_SIZE_UP_TO; size++) {
        blocks[size] = malloc(size);
        CHECK_WITH(blocks[size] != NULL, "size %zu", size);
        CHECK_WITH(is_aligned(blocks[size], required_alignment(size)), "size %zu: %p", size,
                   blocks[size]);
        pattern_fill(blocks[size], size, size);
    }
    for (size_t size = 1; size < EVERY_SIZE_UP_TO; size++) {
        CHECK_WITH(pattern_holds(blocks[size], size, size, size), "size %zu", size);
    }
    for (size_t size = 1; size < EVERY_SIZE_UP_TO; size++) free(blocks[size]);
}

TEST(blocks_around_every_power_of_two_are_aligned_writable_and_do_not_overlap) {
    size_t count = 0, sizes[400];
    for (size_t power = 16; power <= 64u * MIB; power *= 2) {
        for (size_t size = power - 9; size <= power + 9; size += 3) sizes[count++] = size;
    }
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(sizes[i]);
        CHECK_WITH(blocks[i] != NULL, "size %zu", sizes[i]);
        CHECK_WITH(is_aligned(blocks[i], required_alignment(sizes[i])), "size %zu", sizes[i]);
        pattern_fill(blocks[i], sizes[i], i);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_WITH(pattern_holds(blocks[i], sizes[i], sizes[i], i), "size %zu", sizes[i]);
        free(blocks[i]);
    }
}

TEST(many_small_blocks_of_mixed_sizes_keep_their_contents) {
    struct random random = {42};
    static size_t sizes[20000];
    for (unsigned round = 0; round < 200000; round++) {
        size_t i = random_below(&random, 20000);
        if (blocks[i]) {
            CHECK_WITH(pattern_holds(blocks[i], sizes[i], sizes[i], i), "size %zu, round %u",
                       sizes[i], round);
            free(blocks[i]);
            blocks[i] = NULL;
        } else {
            sizes[i] = random_size(&random, 2048);
            CHECK((blocks[i] = malloc(sizes[i])) != NULL);
            pattern_fill(blocks[i], sizes[i], i);
        }
    }
}

TEST(malloc_of_zero_bytes_returns_a_unique_block) {
    void* p[6] = {malloc(0), malloc(0), calloc(0, 8), calloc(8, 0), realloc(NULL, 0), calloc(0, 0)};
    for (int i = 0; i < 6; i++) {
        CHECK_WITH(p[i] != NULL, "call %d", i);
        for (int j = 0; j < i; j++) CHECK_WITH(p[i] != p[j], "calls %d and %d", i, j);
    }
    for (int i = 0; i < 6; i++) free(p[i]);
}

// C does not define the result of realloc(p, 0). It may free the block and return NULL, like glibc,
// or return an empty block.
TEST(realloc_to_zero_frees_or_returns_an_empty_block) {
    for (unsigned round = 0; round < 100000; round++) {
        char* p = malloc(100);
        CHECK(p != NULL);
        p[0] = 1;
        void* q = realloc(p, 0);
        if (q) free(q);
    }
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB: neither frees", resident_bytes() / KIB);
}

TEST(free_of_null_does_nothing) {
    errno = 5;
    for (int i = 0; i < 1000; i++) free(NULL);
    CHECK_EQUAL(errno, 5);
}

TEST(success_and_free_keep_errno) {
    static const size_t sizes[] = {1, 100, 5000, 70000, 600000, 5u * MIB, 40u * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char* volatile p = malloc(sizes[i]);
        CHECK(p != NULL);
        p[0] = 1;
        errno = 1234;
        free(p);
        CHECK_WITH(errno == 1234, "free of %zu set errno to %d", sizes[i], errno);
    }
}

// ---- impossible sizes ----

static void check_fails(void* p, const char* call, size_t a, size_t b) {
    CHECK_WITH(p == NULL, "%s(%zu, %zu) = %p", call, a, b, p);
    CHECK_WITH(errno == ENOMEM, "%s(%zu, %zu): errno %d", call, a, b, errno);
    errno = 0;
}

// Rounding up to a size class, a page or a slice must not overflow in any step.
static const size_t below_the_end[] = {
    0,     1,     7,     8,      15,     16,     31,      63,      4094,     4095,     4096,
    65534, 65535, 65536, 131071, 524288, 524287, 4194303, 4194304, 16777216, 268435456};

TEST(sizes_beyond_the_address_space_fail) {
    errno = 0;
    for (size_t i = 0; i < sizeof below_the_end / sizeof *below_the_end; i++) {
        size_t ends[] = {SIZE_MAX - below_the_end[i], SIZE_MAX / 2 + 1 + below_the_end[i]};
        for (int end = 0; end < 2; end++) {
            size_t size = ends[end];
            void* out = NULL;
            check_fails(malloc(size), "malloc", size, 0);
            check_fails(calloc(1, size), "calloc", 1, size);
            check_fails(calloc(size, 1), "calloc", size, 1);
            check_fails(realloc(NULL, size), "realloc(NULL)", size, 0);
            check_fails(valloc(size), "valloc", size, 0);
            check_fails(pvalloc(size), "pvalloc", size, 0);
            for (size_t alignment = 8; alignment <= 1u * MIB; alignment *= 8) {
                check_fails(memalign(alignment, size), "memalign", alignment, size);
                if (size % alignment == 0)
                    check_fails(aligned_alloc(alignment, size), "aligned_alloc", alignment, size);
                CHECK_WITH(posix_memalign(&out, alignment, size) == ENOMEM, "%zu, %zu", alignment,
                           size);
            }
        }
    }
}

TEST(products_that_overflow_fail) {
    static const size_t factors[] = {
        2, 3, 8, 16, 255, 65536, (size_t)1 << 31, (size_t)1 << 32, ((size_t)1 << 32) + 1, SIZE_MAX};
    char* p = malloc(100);
    pattern_fill(p, 100, 9);
    errno = 0;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        for (size_t extra = 1; extra < 20; extra++) {
            size_t other = SIZE_MAX / factors[i] + extra; // the product overflows to a small number
            if (other < extra) continue;
            check_fails(calloc(factors[i], other), "calloc", factors[i], other);
            check_fails(calloc(other, factors[i]), "calloc", other, factors[i]);
            check_fails(reallocarray(NULL, factors[i], other), "reallocarray", factors[i], other);
            check_fails(reallocarray(p, other, factors[i]), "reallocarray(p)", other, factors[i]);
        }
    }
    CHECK(pattern_holds(p, 100, 100, 9));
    free(p);
}

TEST(a_failed_realloc_leaves_the_block_unchanged) {
    static const size_t sizes[] = {1, 100, 5000, 70000, 600000, 5u * MIB, 40u * MIB};
    errno = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char* p = malloc(sizes[i]);
        CHECK(p != NULL);
        pattern_fill(p, sizes[i], i);
        for (size_t k = 0; k < sizeof below_the_end / sizeof *below_the_end; k++) {
            check_fails(realloc(p, SIZE_MAX - below_the_end[k]), "realloc", sizes[i], k);
            check_fails(realloc(p, PTRDIFF_MAX + (size_t)1 + below_the_end[k]), "realloc", sizes[i],
                        k);
        }
        CHECK_WITH(pattern_holds(p, sizes[i], sizes[i], i), "size %zu", sizes[i]);
        free(p);
    }
}

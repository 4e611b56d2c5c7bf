// The names of mimalloc 1.6.3 in C: each behaves as programs expect.
// docs/reference/mimalloc-names.md lists the test for each name.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <mimalloc.h>

// ---- blocks ----

TEST(standard_names) {
    char* block = mi_malloc(100);
    CHECK(kl_contains(block) && kl_usable_size(block) >= 100);
    pattern_fill(block, 100, 1);
    CHECK(mi_expand(block, 50) == block && mi_expand(block, 1u << 20) == NULL);
    CHECK(mi_expand(NULL, 10) == NULL);
    block = mi_realloc(block, 100000);
    CHECK(pattern_holds(block, 100, 100, 1));
    block = mi_realloc(block, 0); // still a block, as in mimalloc
    CHECK(block != NULL);
    mi_free(block);
    mi_free(NULL);
    char* zeros = mi_calloc(10, 33);
    CHECK(is_zero_between(zeros, 0, 330));
    CHECK(mi_calloc(SIZE_MAX / 2, 3) == NULL);
    mi_free(zeros);
    char* text = mi_strdup("text");
    char* part = mi_strndup("text", 2);
    char* path = mi_realpath("/proc/self/..", NULL);
    CHECK(strcmp(text, "text") == 0 && strcmp(part, "te") == 0 && strcmp(path, "/proc") == 0);
    CHECK(kl_contains(text) && kl_contains(part) && kl_contains(path));
    mi_free(text);
    mi_free(part);
    mi_free(path);
}

TEST(extended_names) {
    CHECK(MI_SMALL_SIZE_MAX == MI_SMALL_WSIZE_MAX * sizeof(void*));
    void* small = mi_malloc_small(MI_SMALL_SIZE_MAX);
    char* zeroed = mi_zalloc_small(MI_SMALL_SIZE_MAX);
    char* large = mi_zalloc(100000);
    CHECK(kl_contains(small) && is_zero_between(zeroed, 0, MI_SMALL_SIZE_MAX) &&
          is_zero_between(large, 0, 100000));
    mi_free(small);
    mi_free(zeroed);
    mi_free(large);
    char* many = mi_mallocn(10, 100);
    CHECK(mi_usable_size(many) >= 1000 && mi_good_size(1000) == mi_usable_size(many));
    CHECK(mi_mallocn(SIZE_MAX / 2, 3) == NULL);
    pattern_fill(many, 1000, 2);
    CHECK(mi_reallocn(many, SIZE_MAX / 2, 3) == NULL); // the block stays live
    many = mi_reallocn(many, 100, 100);
    CHECK(pattern_holds(many, 1000, 1000, 2));
    many = mi_reallocn(many, 0, 100);
    CHECK(many != NULL);
    many = mi_reallocf(many, 500);
    CHECK(mi_usable_size(many) >= 500);
    CHECK(mi_reallocf(many, SIZE_MAX / 2) == NULL); // the block has been freed
}

TEST(aligned_names) {
    for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
        char* blocks[] = {mi_malloc_aligned(1000, alignment), mi_zalloc_aligned(1000, alignment),
                          mi_calloc_aligned(10, 100, alignment)};
        for (int i = 0; i < 3; i++) {
            CHECK(is_aligned(blocks[i], alignment) &&
                  (i == 0 || is_zero_between(blocks[i], 0, 1000)));
            pattern_fill(blocks[i], 1000, 3);
            blocks[i] = mi_realloc_aligned(blocks[i], 5000, alignment);
            CHECK(is_aligned(blocks[i], alignment) && pattern_holds(blocks[i], 1000, 1000, 3));
            mi_free(blocks[i]);
        }
        char* inner[] = {mi_malloc_aligned_at(1000, alignment, 24),
                         mi_zalloc_aligned_at(1000, alignment, 24),
                         mi_calloc_aligned_at(10, 100, alignment, 24)};
        for (int i = 0; i < 3; i++) {
            CHECK(is_aligned(inner[i] + 24, alignment) &&
                  (i == 0 || is_zero_between(inner[i], 0, 1000)));
            pattern_fill(inner[i], 1000, 4);
            inner[i] = mi_realloc_aligned_at(inner[i], 5000, alignment, 24);
            CHECK(is_aligned(inner[i] + 24, alignment) && pattern_holds(inner[i], 1000, 1000, 4));
            mi_free(inner[i]);
        }
    }
    CHECK(mi_malloc_aligned(160, 24) == NULL && mi_malloc_aligned(160, 0) == NULL);
}

TEST(zeroing_names) {
    char* block = mi_rezalloc(NULL, 100);
    for (size_t size = 100; size < 300000; size *= 3) {
        memset(block, 0x55, size);
        block = size % 2 == 0 ? mi_rezalloc(block, 3 * size) : mi_recalloc(block, 3, size);
        CHECK(is_zero_between(block, size, 3 * size));
    }
    CHECK(mi_recalloc(block, SIZE_MAX / 2, 3) == NULL);
    mi_free(block);
    char* aligned = mi_zalloc_aligned(100, 256);
    char* inner = mi_zalloc_aligned_at(100, 256, 16);
    for (size_t size = 100; size < 300000; size *= 3) {
        memset(aligned, 0x55, size);
        memset(inner, 0x55, size);
        bool even = size % 2 == 0;
        aligned = even ? mi_rezalloc_aligned(aligned, 3 * size, 256)
                       : mi_recalloc_aligned(aligned, 3, size, 256);
        inner = even ? mi_rezalloc_aligned_at(inner, 3 * size, 256, 16)
                     : mi_recalloc_aligned_at(inner, 3, size, 256, 16);
        CHECK(is_aligned(aligned, 256) && is_zero_between(aligned, size, 3 * size));
        CHECK(is_aligned(inner + 16, 256) && is_zero_between(inner, size, 3 * size));
    }
    mi_free(aligned);
    mi_free(inner);
}

TEST(typed_names) {
    struct object {
        int number;
        double others[4];
    };
    struct object* one = mi_malloc_tp(struct object);
    struct object* zero = mi_zalloc_tp(struct object);
    struct object* ten = mi_calloc_tp(struct object, 10);
    struct object* more = mi_mallocn_tp(struct object, 10);
    CHECK(is_zero_between(zero, 0, sizeof *zero) && is_zero_between(ten, 0, 10 * sizeof *ten));
    CHECK(mi_usable_size(one) >= sizeof *one && mi_usable_size(more) >= 10 * sizeof *more);
    more = mi_reallocn_tp(more, struct object, 1000);
    ten = mi_recalloc_tp(ten, struct object, 1000);
    CHECK(mi_usable_size(more) >= 1000 * sizeof *more &&
          is_zero_between(ten, 0, 1000 * sizeof *ten));
    mi_free(one);
    mi_free(zero);
    mi_free(ten);
    mi_free(more);
}

TEST(names_of_other_systems) {
    void* blocks[12];
    size_t count = 0;
    CHECK_EQUAL(mi_posix_memalign(&blocks[count], 128, 1000), 0);
    CHECK(is_aligned(blocks[count++], 128));
    CHECK_EQUAL(mi_posix_memalign(NULL, 128, 10), EINVAL);
    CHECK_EQUAL(mi_posix_memalign(&blocks[count], 3, 10), EINVAL);
    CHECK_EQUAL(mi_posix_memalign(&blocks[count], 64, SIZE_MAX / 2), ENOMEM);
    CHECK(is_aligned(blocks[count++] = mi_memalign(512, 100), 512));
    CHECK(is_aligned(blocks[count++] = mi_aligned_alloc(1024, 2048), 1024));
    CHECK(is_aligned(blocks[count++] = mi_valloc(10), 4096));
    CHECK(is_aligned(blocks[count] = mi_pvalloc(10), 4096));
    CHECK(mi_malloc_size(blocks[count]) >= 4096 && mi_malloc_usable_size(blocks[count]) >= 4096);
    CHECK(mi__expand(blocks[count], 4096) == blocks[count]);
    errno = 0;
    CHECK(mi__expand(blocks[count++], 1u << 20) == NULL && errno == ENOMEM);
    blocks[count++] = mi_reallocarray(NULL, 10, 10);
    CHECK(is_zero_between(blocks[count++] = mi_aligned_recalloc(NULL, 10, 10, 64), 0, 100));
    CHECK(
        is_zero_between(blocks[count++] = mi_aligned_offset_recalloc(NULL, 10, 10, 64, 8), 0, 100));
    unsigned short wide[] = {'w', 'i', 'd', 'e', 0};
    CHECK(memcmp(blocks[count++] = mi_wcsdup(wide), wide, sizeof wide) == 0);
    CHECK(strcmp(blocks[count++] = mi_mbsdup((const unsigned char*)"bytes"), "bytes") == 0);
    CHECK(mi_wcsdup(NULL) == NULL && mi_mbsdup(NULL) == NULL);
    for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
    mi_free_size(mi_malloc(100), 100);
    mi_free_aligned(mi_malloc_aligned(100, 64), 64);
    mi_free_size_aligned(mi_malloc_aligned(100, 64), 100, 64);
    mi_cfree(mi_malloc(100));
    int on_the_stack = 0;
    mi_cfree(&on_the_stack);
}

TEST(copies_of_the_environment) {
    setenv("MI_TEST", "value", 1);
    char* copy = NULL;
    size_t length = 99;
    CHECK_EQUAL(mi_dupenv_s(&copy, &length, "MI_TEST"), 0);
    CHECK(strcmp(copy, "value") == 0 && length == 5 && kl_contains(copy));
    mi_free(copy);
    CHECK_EQUAL(mi_dupenv_s(&copy, &length, "MI_TEST_NOT_THERE"), 0);
    CHECK(copy == NULL && length == 0);
    CHECK_EQUAL(mi_dupenv_s(NULL, NULL, "MI_TEST"), EINVAL);
    unsigned short name[] = {'M', 0};
    unsigned short* wide = name;
    CHECK(mi_wdupenv_s(&wide, &length, name) == EINVAL && wide == NULL);
}

TEST(names_of_new_in_c) {
    void* blocks[] = {mi_new(100), mi_new_aligned(100, 256), mi_new_nothrow(100),
                      mi_new_aligned_nothrow(100, 256), mi_new_n(10, 10)};
    CHECK(is_aligned(blocks[1], 256) && is_aligned(blocks[3], 256));
    blocks[0] = mi_new_realloc(blocks[0], 0);
    blocks[4] = mi_new_reallocn(blocks[4], 100, 100);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK_WITH(kl_contains(blocks[i]), "block %zu", i);
        mi_free(blocks[i]);
    }
    CHECK(mi_new_nothrow(SIZE_MAX / 2) == NULL && mi_new_aligned_nothrow(SIZE_MAX / 2, 64) == NULL);
}

TEST_DIES(new_without_memory_ends_a_program_in_c, SIGABRT, "keel: out of memory in mi_new") {
    void* volatile block = mi_new(SIZE_MAX / 2);
    (void)block;
}

// ---- attributes ----

mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
own(size_t count, size_t size, size_t to) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2)
    mi_attr_alloc_align(3);
mi_decl_export void* mi_cdecl own_small(size_t size) mi_attr_noexcept mi_attr_alloc_size(1);

void* own(size_t count, size_t size, size_t to) {
    return mi_calloc_aligned(count, size, to);
}
void* own_small(size_t size) {
    return mi_malloc(size);
}

TEST(names_of_attributes) {
    void *aligned = own(10, 10, 64), *small = own_small(10);
    CHECK(is_aligned(aligned, 64) && small != NULL);
    mi_free(aligned);
    mi_free(small);
}

// ---- the allocator ----

static int heartbeats, errors, texts;
static bool forced;

static void on_heartbeat(bool force, unsigned long long heartbeat, void* argument) {
    (void)heartbeat;
    heartbeats++;
    forced = forced || force;
    *(int*)argument += 1;
}
static void on_text(const char* text, void* argument) {
    texts += text[0] != '\0';
    *(int*)argument += 1;
}
static void on_error(int error, void* argument) {
    errors += error == ENOMEM || error == EOVERFLOW;
    *(int*)argument += 1;
}

TEST(names_of_handlers) {
    int calls = 0;
    mi_deferred_free_fun* heartbeat = on_heartbeat;
    mi_output_fun* output = on_text;
    mi_error_fun* error = on_error;
    mi_register_deferred_free(heartbeat, &calls);
    mi_collect(true);
    CHECK(heartbeats > 0 && forced);
    mi_register_output(output, &calls);
    mi_stats_print(NULL);
    CHECK(texts > 0);
    mi_register_error(error, &calls);
    void* volatile none = mi_malloc(SIZE_MAX / 2);
    CHECK(none == NULL && errors > 0 && calls >= heartbeats + texts + errors);
    mi_register_deferred_free(NULL, NULL);
    mi_register_output(NULL, NULL);
    mi_register_error(NULL, NULL);
}

TEST(names_of_statistics) {
    int calls = 0, before;
    mi_free(mi_malloc(100));
    mi_stats_merge();
    mi_stats_print_out(on_text, &calls);
    before = calls;
    CHECK(before > 0);
    mi_thread_stats_print_out(on_text, &calls);
    CHECK(calls > before);
    mi_stats_reset();
}

TEST(names_of_the_process) {
    mi_process_init();
    mi_thread_init();
    CHECK(mi_version() == MI_MALLOC_VERSION && mi_version() == 163 && !mi_is_redirected());
    void* block = mi_malloc(100);
    int on_the_stack = 0;
    CHECK(mi_is_in_heap_region(block) && !mi_is_in_heap_region(&on_the_stack));
    CHECK(mi_check_owned(block) && !mi_check_owned(&on_the_stack));
    mi_thread_done();
    mi_free(block);
}

TEST(names_of_options) {
    const mi_option_t all[] = {mi_option_show_errors,
                               mi_option_show_stats,
                               mi_option_verbose,
                               mi_option_eager_commit,
                               mi_option_eager_region_commit,
                               mi_option_reset_decommits,
                               mi_option_large_os_pages,
                               mi_option_reserve_huge_os_pages,
                               mi_option_segment_cache,
                               mi_option_page_reset,
                               mi_option_abandoned_page_reset,
                               mi_option_segment_reset,
                               mi_option_eager_commit_delay,
                               mi_option_reset_delay,
                               mi_option_use_numa_nodes,
                               mi_option_os_tag,
                               mi_option_max_errors};
    const enum mi_option_e first = all[0];
    CHECK(first == 0 && _mi_option_last == sizeof all / sizeof *all);
    for (int i = 0; i < _mi_option_last; i++) {
        CHECK_EQUAL(all[i], i);
        mi_option_set(all[i], 7);
        CHECK_EQUAL(mi_option_get(all[i]), 7);
        mi_option_set_default(all[i], 9); // no effect: a call has set it
        CHECK_EQUAL(mi_option_get(all[i]), 7);
        mi_option_disable(all[i]);
        CHECK(!mi_option_is_enabled(all[i]));
        mi_option_set_enabled_default(all[i], true);
        CHECK(!mi_option_is_enabled(all[i]));
        mi_option_enable(all[i]);
        CHECK(mi_option_is_enabled(all[i]));
        mi_option_set_enabled(all[i], false);
        CHECK(!mi_option_is_enabled(all[i]));
    }
}

// Few machines have huge pages; no machine has as many as are requested here.
TEST(names_of_huge_pages) {
    size_t reserved = 99;
    CHECK_EQUAL(mi_reserve_huge_os_pages_interleave(0, 0, 100), 0);
    CHECK_EQUAL(mi_reserve_huge_os_pages_at(0, 0, 100), 0);
    CHECK(mi_reserve_huge_os_pages_at(100000, 0, 100) != 0);
    CHECK(mi_reserve_huge_os_pages(100000, 0.1, &reserved) != 0 && reserved == 0);
}

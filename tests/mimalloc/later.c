// The names that mimalloc 2 and 3 have added, in C: each behaves as programs expect.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mimalloc.h>

TEST(later_names_of_blocks) {
    void* small = mi_malloc_small(64);
    mi_free_small(small);
    CHECK_EQUAL(mi_malloc_good_size(1000), mi_good_size(1000));
    char* block = NULL;
    CHECK_EQUAL(mi_reallocarr(&block, 10, 10), 0);
    CHECK(kl_contains(block) && mi_usable_size(block) >= 100);
    pattern_fill(block, 100, 1);
    char* before = block;
    CHECK_EQUAL(mi_reallocarr(&block, SIZE_MAX / 2, 3), ENOMEM);
    CHECK(block == before);
    CHECK_EQUAL(mi_reallocarr(&block, 100, 1000), 0);
    CHECK(pattern_holds(block, 100, 100000, 1));
    CHECK_EQUAL(mi_reallocarr(&block, 0, 1000), 0); // still a block
    CHECK(block != NULL);
    CHECK_EQUAL(mi_reallocarr(NULL, 1, 1), EINVAL);
    mi_free(block);
}

TEST(later_names_of_sizes) {
    size_t size = 0, before = 0;
    char* block = mi_umalloc(100, &size);
    CHECK(size >= 100 && size == mi_usable_size(block));
    const size_t first = size;
    block = mi_urealloc(block, 100000, &before, &size);
    CHECK(before == first && size >= 100000 && size == mi_usable_size(block));
    mi_ufree(block, &before);
    CHECK_EQUAL(before, size);
    block = mi_ucalloc(10, 10, &size);
    CHECK(size == mi_usable_size(block) && is_zero(block, 100));
    block = mi_urealloc(block, 0, NULL, NULL); // still a block, as in mimalloc
    CHECK(block != NULL);
    mi_ufree(block, NULL);
}

TEST(later_names_of_the_process) {
    char* block = mi_malloc(8u << 20);
    memset(block, 1, 8u << 20);
    size_t elapsed, user, system, rss, rss_peak, commit, commit_peak, faults;
    mi_process_info(&elapsed, &user, &system, &rss, &rss_peak, &commit, &commit_peak, &faults);
    CHECK(rss >= 8u << 20 && rss_peak >= 8u << 20);
    CHECK(commit >= 8u << 20 && commit_peak >= commit);
    CHECK(user + system < 3600000 && elapsed < 3600000 && faults < 1u << 30);
    mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    mi_thread_set_in_threadpool();
    mi_free(block);
}

TEST(later_names_of_options) {
    mi_option_set(mi_option_purge_delay, 250);
    CHECK(mi_option_get(mi_option_reset_delay) == 250 &&
          mi_option_get(mi_option_decommit_delay) == 250);
    CHECK(mi_option_get_clamp(mi_option_purge_delay, 0, 100) == 100);
    CHECK(mi_option_get_clamp(mi_option_purge_delay, 300, 400) == 300);
    CHECK(mi_option_get_clamp(mi_option_purge_delay, 0, 1000) == 250);
    CHECK_EQUAL(mi_option_get_size(mi_option_purge_delay), 250u);
    mi_option_set(mi_option_max_warnings, -1);
    CHECK_EQUAL(mi_option_get_size(mi_option_max_errors), 0u);
    const mi_option_t kept[] = {mi_option_allow_large_os_pages, mi_option_purge_decommits,
                                mi_option_allow_decommit, mi_option_arena_eager_commit};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        mi_option_enable(kept[i]);
        CHECK(mi_option_is_enabled(kept[i]));
        mi_option_disable(kept[i]);
        CHECK(!mi_option_is_enabled(kept[i]));
    }
}

TEST(later_names_of_arenas) {
    mi_arena_id_t arena = NULL;
    CHECK_EQUAL(mi_reserve_os_memory_ex(16u << 20, false, false, true, &arena), 0);
    size_t size = 0;
    char* start = mi_arena_area(arena, &size);
    CHECK(start != NULL && size >= 16u << 20);
    CHECK(mi_arena_contains(arena, start) && mi_arena_contains(arena, start + size - 1));
    CHECK(!mi_arena_contains(arena, start + size) && !mi_arena_contains(NULL, start));
    mi_heap_t* heap = mi_heap_new_in_arena(arena);
    char* block = mi_heap_zalloc_small(heap, 100);
    CHECK(mi_arena_contains(arena, block) && is_zero(block, 100));
    char* more = mi_heap_alloc_new(heap, 1000);
    char* many = mi_heap_alloc_new_n(heap, 100, 1000);
    CHECK(mi_arena_contains(arena, more) && mi_arena_contains(arena, many));
    void* elsewhere = mi_malloc(100);
    CHECK(!mi_arena_contains(arena, elsewhere)); // the arena is exclusive
    CHECK(mi_heap_new_in_arena(NULL) != NULL);
    mi_free(elsewhere);
    mi_heap_destroy(heap);
    CHECK_EQUAL(mi_reserve_os_memory(4u << 20, true, false), 0);
    CHECK_EQUAL(mi_reserve_os_memory_ex(SIZE_MAX / 2, false, false, false, &arena), ENOMEM);
    CHECK(arena == NULL);
}

TEST(memory_given_by_the_program) {
    const size_t bytes = 8u << 20;
    void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    mi_arena_id_t arena = NULL;
    CHECK(mi_manage_os_memory_ex(memory, bytes, true, false, true, -1, true, &arena));
    mi_heap_t* heap = mi_heap_new_in_arena(arena);
    char* block = mi_heap_malloc(heap, 100000);
    CHECK(block >= (char*)memory && block < (char*)memory + bytes);
    mi_heap_destroy(heap);
    CHECK(!mi_manage_os_memory(memory, bytes, true, false, true, -1)); // it already belongs to Keel
    CHECK(!mi_manage_os_memory_ex(memory, 100, true, false, true, -1, false, &arena) &&
          arena == NULL);
}

TEST(memory_that_is_not_committed_becomes_accessible) {
    const size_t bytes = 4u << 20;
    char* memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    mi_arena_id_t arena = NULL;
    CHECK(mi_manage_os_memory_ex(memory + 100, bytes - 200, false, false, true, -1, true, &arena));
    char* block = mi_heap_malloc(mi_heap_new_in_arena(arena), 100000);
    CHECK(block > memory && block < memory + bytes);
    memset(block, 1, 100000);
    int ends[2]; // of a pipe, which does not take what cannot be read
    CHECK(pipe(ends) == 0 && mprotect(memory, bytes, PROT_NONE) == 0);
    errno = 0;
    CHECK(kl_manage_os_memory(memory, bytes, kl_memory_closed, -1) == NULL && errno == EINVAL);
    CHECK(write(ends[1], memory + bytes / 2, 1) == -1 && errno == EFAULT);
    char* gone = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(gone != MAP_FAILED && munmap(gone, bytes) == 0);
    CHECK(kl_manage_os_memory(gone, bytes, kl_memory_closed, -1) == NULL && errno == ENOMEM);
}

// Reserves huge pages as on a machine that has some. This program defines mmap, with a pool in
// ordinary memory that is never touched.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/arena.h>
#include <keel/heap.h>
#include <keel/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GIB ((size_t)1 << 30)
#define POPULATE_WRITE 23

static size_t pool[2]; // pages of 2 MiB and 1 GiB left
static unsigned step_ms;

void* mmap(void* start, size_t bytes, int protection, int flags, int file, off_t offset) {
    if ((flags & MAP_HUGETLB) != 0) {
        unsigned shift = (unsigned)flags >> 26;
        size_t* left = &pool[shift == 30];
        if (step_ms != 0) sleep_ms(step_ms);
        if ((shift != 21 && shift != 30) || *left < bytes >> shift) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
        *left -= bytes >> shift;
        flags = (flags & ~MAP_HUGETLB & ((1 << 26) - 1)) | MAP_NORESERVE;
    }
    return (void*)syscall(SYS_mmap, start, bytes, protection, flags, file, offset);
}

int madvise(void* start, size_t bytes, int advice) {
    if (advice == POPULATE_WRITE) return 0; // do not populate a GiB
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

// Of blocks smaller than a huge page, only one in such a page begins at a multiple of its size.
static bool is_at_gib(const void* block) {
    CHECK(block != NULL);
    return (uintptr_t)block % GIB == 0;
}

TEST(all_available_pages_can_be_reserved) {
    pool[1] = 3;
    errno = 0;
    CHECK_EQUAL(kl_reserve_huge_os_pages_interleave(2, 0, 0), 0);
    CHECK(pool[1] == 1 && errno == 0);
    char* block = kl_malloc(2 * GIB);
    CHECK(is_at_gib(block));
    block[0] = block[2 * GIB - 1] = 1;
    kl_free(block);
    CHECK(kl_malloc(2 * GIB) == block); // at the same address
}

TEST(fewer_pages_than_requested_stay_reserved) {
    pool[1] = 1;
    size_t maps = map_count();
    CHECK_EQUAL(kl_reserve_huge_os_pages_at(3, 0, 0), ENOMEM);
    CHECK(pool[1] == 0 && map_count() <= maps + 10); // the page, its bits, the metadata
    CHECK(is_at_gib(kl_malloc(GIB)) && !is_at_gib(kl_malloc(GIB - MIB)));
}

TEST(reserving_stops_after_the_timeout) {
    pool[1] = 100;
    step_ms = 60;
    CHECK_EQUAL(kl_reserve_huge_os_pages_at(50, -1, 100), ETIMEDOUT);
    CHECK_WITH(pool[1] >= 95 && pool[1] < 100, "%zu", pool[1]);
}

TEST(large_pages_are_used_if_there_are_enough) {
    pool[0] = 10;
    kl_arena_t* arena = kl_reserve_os_memory(5u * MIB, kl_memory_large_pages | kl_memory_exclusive);
    struct kl_arena_state info;
    kl_arena_info(arena, &info);
    CHECK(pool[0] == 7 && info.bytes == 6u * MIB && is_aligned(info.start, 2u * MIB));
    kl_heap_t* heap = kl_heap_new_in_arena(arena);
    CHECK(is_zero(kl_heap_calloc(heap, 3, MIB), 3u * MIB));
    CHECK(kl_reserve_os_memory(20u * MIB, kl_memory_large_pages) != NULL && pool[0] == 7);
    CHECK(kl_reserve_os_memory(2u * MIB, 0) != NULL && pool[0] == 7);
    kl_option_enable(kl_option_large_os_pages);
    CHECK(kl_reserve_os_memory(2u * MIB, 0) != NULL && pool[0] == 6);
    kl_heap_destroy(heap);
    CHECK(kl_arena_release(arena));
}

TEST(the_environment_reserves_pages_at_start) {
    if (getenv("MIMALLOC_RESERVE_HUGE_OS_PAGES") != NULL) {
        CHECK_EQUAL(kl_option_get(kl_option_reserve_huge_os_pages), 2);
        CHECK_EQUAL(pool[1], 6);
        CHECK(is_at_gib(kl_malloc(2 * GIB)) && !is_at_gib(kl_malloc(GIB - MIB)));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        setenv("MIMALLOC_RESERVE_HUGE_OS_PAGES", "2", 1);
        execl("/proc/self/exe", "huge_pages", "the_environment_reserves_pages_at_start",
              (char*)NULL);
        _exit(127);
    }
    CHECK_CHILD(child);
}

// Runs before Keel's own constructor.
__attribute__((constructor(101))) static void fill_pool(void) {
    if (getenv("MIMALLOC_RESERVE_HUGE_OS_PAGES") != NULL) pool[1] = 8;
}

/* Large and huge blocks, and allocation without memory. */
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subject.h"

#define GIB ((size_t)1024 * MIB)

TEST(blocks_up_to_a_gibibyte_are_usable_at_both_ends) {
    for (size_t size = 64 * KIB; size <= GIB; size += size / 4 + 12345) {
        char *p = malloc(size), *q = malloc(size);
        CHECK_WITH(p != NULL && q != NULL, "size %zu", size);
        CHECK_WITH(malloc_usable_size(p) >= size, "size %zu", size);
        p[0] = q[0] = 1;
        p[size / 2] = q[size / 2] = 2;
        p[size - 1] = q[size - 1] = 3;
        CHECK_WITH(p + size <= q || q + size <= p, "size %zu: %p and %p", size, (void*)p, (void*)q);
        free(p);
        free(q);
    }
}

// As with the C library: the system refuses what it could never provide, unless its setting is to
// grant all.
TEST(more_than_the_machine_could_hold_fails) {
    struct sysinfo info;
    char mode = '1';
    FILE* file = fopen("/proc/sys/vm/overcommit_memory", "r");
    if (file == NULL || fread(&mode, 1, 1, file) != 1 || mode == '1')
        SKIP("the system grants any request");
    fclose(file);
    CHECK(sysinfo(&info) == 0);
    size_t size = 2 * (info.totalram + info.totalswap) * info.mem_unit;
    errno = 0;
    char* p = malloc(size);
    CHECK(p == NULL && errno == ENOMEM);
    CHECK((p = malloc(100 * MIB)) != NULL);
    CHECK(realloc(p, size) == NULL);
    free(p);
}

TEST(a_block_of_more_than_four_gibibytes_can_be_allocated) {
    size_t size = 5 * GIB + 4097;
    char* p = malloc(size);
    if (!p && physical_bytes() < 8 * GIB)
        SKIP("this machine has too little memory for a block of 5 GiB");
    CHECK(p != NULL);
    for (size_t at = 0; at < size; at += GIB / 2) p[at] = (char)(at >> 20);
    for (size_t at = 0; at < size; at += GIB / 2) CHECK(p[at] == (char)(at >> 20));
    p[size - 1] = 1;
    CHECK((p = realloc(p, GIB)) != NULL);
    free(p);
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

TEST(a_huge_calloc_costs_no_memory_until_touched) {
    size_t before = resident_bytes();
    char* p = calloc(GIB / 64, 64);
    CHECK(p != NULL);
    CHECK(p[0] == 0 && p[GIB / 2] == 0 && p[GIB - 1] == 0);
    CHECK_WITH(resident_bytes() < before + 64u * MIB, "%zu KiB", resident_bytes() / KIB);
    free(p);
}

TEST(many_blocks_of_megabytes_are_live_at_once) {
    enum { COUNT = 120 };
    static char* blocks[COUNT];
    static size_t sizes[COUNT];
    struct random random = {1};
    for (int round = 0; round < 600; round++) {
        size_t i = random_below(&random, COUNT);
        if (blocks[i])
            CHECK_WITH(pattern_holds(blocks[i], sizes[i], sizes[i], i), "size %zu", sizes[i]);
        free(blocks[i]);
        sizes[i] = MIB + random_below(&random, 9u * MIB);
        CHECK((blocks[i] = malloc(sizes[i])) != NULL);
        pattern_fill(blocks[i], sizes[i], i);
    }
}

TEST(memory_does_not_grow_as_huge_blocks_come_and_go) {
    for (int round = 0; round < 3000; round++) {
        char* p = malloc(GIB + (size_t)(round + 1) * 4096);
        CHECK_WITH(p != NULL, "round %d", round);
        p[0] = p[GIB] = 1;
        free(p);
    }
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

// ---- out of memory ----
#if !SUBJECT_API // a sanitizer's shadow memory does not fit under a limit

static void limit(int resource, size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(resource, &limit) == 0);
}

static size_t address_space_bytes(void) {
    unsigned long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

struct link {
    struct link* next;
    size_t number;
};

// Allocates blocks of one size until there is no memory. Then checks the error and the contents of
// all blocks, and frees the blocks.
static size_t exhaust(size_t size) {
    struct link *list = NULL, *block;
    size_t count = 0;
    errno = 0;
    while (count * size < 16 * GIB && (block = malloc(size)) != NULL) {
        pattern_fill((char*)block + sizeof *block, size - sizeof *block, count);
        *block = (struct link){list, count++};
        list = block;
    }
    CHECK_WITH(errno == ENOMEM, "errno %d after %zu blocks of %zu", errno, count, size);
    CHECK(calloc(1, size) == NULL && errno == ENOMEM);
    for (size_t left = count; list; list = block) {
        size_t contents = size - sizeof *list;
        block = list->next;
        CHECK_EQUAL(list->number, --left);
        CHECK_WITH(pattern_holds((char*)list + sizeof *list, contents, contents, left),
                   "block %zu of %zu", left, size);
        free(list);
    }
    return count;
}

static void exhaust_again_and_again(size_t size, size_t room) {
    size_t first = exhaust(size);
    CHECK_WITH(first * size >= room / 2, "only %zu blocks of %zu in %zu MiB", first, size,
               room / MIB);
    for (int round = 0; round < 3; round++) {
        size_t count = exhaust(size);
        CHECK_WITH(count >= first - first / 4, "%zu blocks of %zu, %zu at first", count, size,
                   first);
    }
}

// RLIMIT_DATA counts private writable mappings, so it applies even if the allocator has reserved
// address space before.
TEST(small_allocations_fail_at_the_limit_and_work_after_frees) {
    limit(RLIMIT_DATA, 64u * MIB + resident_bytes());
    exhaust_again_and_again(100, 16u * MIB);
}

TEST(allocations_of_all_sizes_fail_at_the_limit_and_work_after_frees) {
    static const size_t sizes[] = {32, 3000, 20000, 100000, 700000, 3u * MIB};
    limit(RLIMIT_DATA, 128u * MIB + resident_bytes());
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        exhaust_again_and_again(sizes[i], 32u * MIB);
}

TEST(a_realloc_without_memory_keeps_the_block) {
    char* p = malloc(3u * MIB);
    pattern_fill(p, 3u * MIB, 1);
    limit(RLIMIT_AS, address_space_bytes() + 64u * MIB);
    errno = 0;
    CHECK(realloc(p, 8 * GIB) == NULL && errno == ENOMEM);
    CHECK(pattern_holds(p, 3u * MIB, 3u * MIB, 1));
    void* out = (void*)&out;
    CHECK_EQUAL(posix_memalign(&out, 4096, 8 * GIB), ENOMEM);
    CHECK(out == (void*)&out);
    CHECK(memalign(4096, 8 * GIB) == NULL && errno == ENOMEM);
    free(p);
}

TEST(huge_allocations_fail_without_address_space) {
    limit(RLIMIT_AS, address_space_bytes() + 2 * GIB);
    for (int round = 0; round < 20; round++) {
        void* blocks[40];
        int count = 0;
        errno = 0;
        while (count < 40 && (blocks[count] = malloc(300u * MIB)) != NULL) count++;
        CHECK_WITH(count < 40 && errno == ENOMEM, "round %d: %d blocks, errno %d", round, count,
                   errno);
        CHECK_WITH(count >= 3, "round %d: %d blocks in 2 GiB", round, count);
        while (count > 0) free(blocks[--count]);
    }
}

// `ulimit -v` is common on servers. A program must start under this limit and be able to use most
// of the limit.
TEST(a_program_started_under_an_address_space_limit_works) {
    pid_t child = fork();
    if (child == 0) {
        limit(RLIMIT_AS, 768u * MIB);
        setenv("CHECK_SECONDS", "100", 1);
        setenv("CHECK_VERBOSE", "", 1);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/proc/self/exe", program_invocation_short_name, "under_a_limit", NULL);
        _exit(126);
    }
    CHECK_CHILD(child);
}

TEST(half_of_a_limit_of_768_mebibytes_is_usable) {
    static char* blocks[384];
    if (address_space_bytes() > 768u * MIB) limit(RLIMIT_AS, address_space_bytes() + 512u * MIB);
    for (int i = 0; i < 384; i++) {
        blocks[i] = malloc(MIB);
        CHECK_WITH(blocks[i] != NULL, "after %d MiB", i);
        pattern_fill(blocks[i], MIB, (unsigned)i);
    }
    for (int i = 0; i < 384; i++) CHECK(pattern_holds(blocks[i], MIB, MIB, (unsigned)i));
}
#endif

// Keel reserves no address space: a program that locks its memory, has a limit on its address
// space, or runs where the system charges all that is mapped, pays for what it uses. This program
// defines mmap and mprotect, to count what is charged and to refuse places.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIB ((size_t)1 << 30)

static size_t writable;         // bytes mapped writable, or made so
static unsigned pieces;         // requests for a place of Keel's choice
static bool (*taken)(unsigned); // whether the n-th of them is answered "something is mapped there"

void* mmap(void* start, size_t bytes, int protection, int flags, int file, off_t offset) {
    if ((protection & PROT_WRITE) != 0) writable += bytes;
    if (start != NULL && taken != NULL && taken(pieces++)) start = NULL;
    return (void*)syscall(SYS_mmap, start, bytes, protection, flags, file, offset);
}

int mprotect(void* start, size_t bytes, int protection) {
    if ((protection & PROT_WRITE) != 0) writable += bytes;
    return (int)syscall(SYS_mprotect, start, bytes, protection);
}

// With vm.overcommit_memory=2 every writable mapping is charged, also with MAP_NORESERVE.
TEST(a_small_program_is_charged_little) {
    size_t before = writable; // what the C library has mapped
    for (int i = 0; i < 1000; i++) CHECK(kl_malloc(100) != NULL);
    CHECK_WITH(writable - before < (size_t)8 * MIB, "%zu bytes", writable - before);
}

TEST(a_program_is_charged_about_what_it_uses) {
    size_t before = writable;
    for (size_t i = 0; i < 2 * GIB / 100000; i++) CHECK(kl_malloc(100000) != NULL);
    // Blocks of 100,000 bytes take 131,072.
    size_t used = 2 * GIB / 100000 * 131072;
    CHECK_WITH(writable - before < used + used / 50 + (size_t)40 * MIB, "%zu bytes",
               writable - before);
}

TEST(locked_memory_is_what_is_used) {
    CHECK(resident_bytes() > 0);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) SKIP("memory cannot be locked: no privilege");
    size_t before = resident_bytes();
    for (int i = 0; i < 1000; i++) CHECK(kl_malloc(100) != NULL);
    size_t locked = resident_bytes() - before;
    CHECK_WITH(locked < (size_t)8 * MIB, "%zu bytes", locked);
    void* large = kl_malloc(20 * MIB);
    CHECK(large != NULL);
    kl_free(large);
    CHECK_WITH(resident_bytes() - before < (size_t)72 * MIB, "%zu bytes", resident_bytes());
}

static void limit_address_space(size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

// Allocates until there is nothing left. The blocks are never written.
static size_t exhaust(size_t size) {
    size_t count = 0;
    while (kl_malloc(size) != NULL) count++;
    return count * size;
}

TEST(a_limited_address_space_is_filled) {
    limit_address_space(GIB);
    size_t got = exhaust(8192);
    CHECK_WITH(got > GIB / 100 * 96, "%zu bytes", got);
    (void)exhaust(1000); // the keeper may have returned something meanwhile
    CHECK(exhaust(1000) < MIB && kl_malloc(10 * MIB) == NULL);
}

// Bytes that `allocate` gives out in blocks of this size until NULL, in a child with this limit.
// The blocks are never written by the test.
static size_t exhaust_in_child(void* (*allocate)(size_t), size_t size, size_t limit) {
    int ends[2];
    size_t got = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        limit_address_space(limit);
        while (allocate(size) != NULL) got += size;
        _exit(write(ends[1], &got, sizeof got) == sizeof got ? 0 : 1);
    }
    CHECK(read(ends[0], &got, sizeof got) == sizeof got);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return got;
}

// Of what the C library gives, in percent. About 2 % are lost whatever the size, and up to 64 KiB
// what size classes and pages leave unused (decision 0020).
TEST(a_limited_address_space_is_filled_by_any_size) {
    static const struct {
        size_t size;
        size_t percent; // at least
    } rows[] = {
        {257, 91},     {300, 96},     {513, 88},     {600, 91},     {641, 90},     {1000, 95},
        {1025, 86},    {1100, 92},    {1300, 89},    {2049, 85},    {2300, 96},    {4097, 85},
        {4700, 83},    {8193, 84},    {9300, 85},    {12000, 93},   {16385, 84},   {18500, 81},
        {20000, 88},   {24000, 88},   {28700, 84},   {32769, 84},   {33000, 85},   {36900, 81},
        {40100, 88},   {41000, 75},   {49200, 72},   {50000, 73},   {57400, 84},   {60000, 88},
        {65500, 97},   {66000, 97},   {70000, 97},   {100000, 97},  {131072, 97},  {131100, 97},
        {200000, 97},  {300000, 97},  {700000, 97},  {1000000, 97}, {1100000, 97}, {MIB, 97},
        {2300000, 96}, {3500000, 96}, {4 * MIB, 96}, {5000000, 95}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t expected = exhaust_in_child(malloc, rows[i].size, GIB);
        size_t got = exhaust_in_child(kl_malloc, rows[i].size, GIB);
        CHECK_WITH(got >= expected / 100 * rows[i].percent, "blocks of %zu bytes: %zu of %zu MiB",
                   rows[i].size, got / MIB, expected / MIB);
    }
}

TEST(blocks_of_mixed_small_sizes_take_little_more) {
    enum { BLOCKS = 60000 };
    static void* blocks[BLOCKS];
    struct random random = {5};
    limit_address_space(GIB);
    size_t live = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 300 + (size_t)random_below(&random, 25000);
        blocks[i] = kl_malloc(size);
        CHECK_WITH(blocks[i] != NULL, "block %u, %zu MiB live", i, live / MIB);
        live += size;
        if (live > 800 * MIB) break;
    }
}

// Where blocks come and go, too: about 715 of 1,024 MiB are live, in blocks that would take 930 MiB
// as whole slices.
TEST(a_limited_address_space_holds_mixed_blocks) {
    enum { BLOCKS = 7000 };
    static unsigned char* blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    struct random random = {14};
    limit_address_space(GIB);
    for (unsigned step = 0; step < 50000; step++) {
        unsigned i = (unsigned)random_below(&random, BLOCKS);
        if (blocks[i] != NULL) CHECK(blocks[i][0] == i % 251 && blocks[i][sizes[i] - 1] == i % 251);
        kl_free(blocks[i]);
        sizes[i] = 66000 + (size_t)random_below(&random, 84000);
        blocks[i] = kl_malloc(sizes[i]);
        CHECK_WITH(blocks[i] != NULL, "step %u, %zu bytes", step, sizes[i]);
        blocks[i][0] = blocks[i][sizes[i] - 1] = (unsigned char)(i % 251);
    }
}

// Blocks that share their slices keep their contents when they are resized, and are zero when they
// should be.
TEST(blocks_in_a_limited_address_space_are_intact) {
    enum { BLOCKS = 200 };
    static unsigned char* blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    struct random random = {41};
    limit_address_space(GIB);
    for (unsigned i = 0; i < 40; i++) CHECK(kl_malloc(100000) != NULL); // it is scarce from here on
    for (unsigned step = 0; step < 6000; step++) {
        unsigned i = (unsigned)random_below(&random, BLOCKS);
        size_t size = 50000 + (size_t)random_below(&random, 250000);
        if (blocks[i] != NULL) CHECK(pattern_holds(blocks[i], sizes[i], sizes[i], i));
        if (blocks[i] != NULL && step % 3 == 0) {
            blocks[i] = kl_realloc(blocks[i], size);
            CHECK(blocks[i] != NULL);
            CHECK(pattern_holds(blocks[i], size < sizes[i] ? size : sizes[i], sizes[i], i));
        } else {
            kl_free(blocks[i]);
            blocks[i] = step % 2 == 0 ? kl_calloc(1, size) : kl_malloc(size);
            CHECK(blocks[i] != NULL);
            for (size_t at = 0; step % 2 == 0 && at < size; at++) CHECK(blocks[i][at] == 0);
        }
        CHECK(kl_usable_size(blocks[i]) >= kl_good_size(size) && kl_good_size(size) >= size);
        pattern_fill(blocks[i], size, i);
        sizes[i] = size;
    }
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
}

// Address space that small blocks have used serves a large block, for which no mapping is left.
TEST(a_large_block_is_found_where_small_ones_were) {
    enum { BLOCKS = 200000 };
    static void* blocks[BLOCKS];
    limit_address_space(GIB / 8);
    unsigned count = 0;
    while (count < BLOCKS && (blocks[count] = kl_malloc(1000)) != NULL) count++;
    CHECK(count > 50000 && count < BLOCKS);
    for (unsigned i = 0; i < count; i++) kl_free(blocks[i]);
    kl_collect(true); // warm slices are found in any case
    for (size_t size = 5 * MIB; size <= 20 * MIB; size *= 2) {
        void* block = kl_malloc(size);
        CHECK_WITH(block != NULL, "%zu bytes", size);
        kl_free(block);
    }
}

// The large address space takes several windows.
TEST(a_limit_of_several_windows_is_filled) {
    limit_address_space(9 * GIB);
    size_t got = exhaust(MIB);
    CHECK_WITH(got > 9 * GIB / 100 * 96, "%zu bytes", got);
}

TEST(memory_is_found_again_after_a_refusal) {
    enum { BLOCKS = 4096 };
    static unsigned char* blocks[BLOCKS];
    limit_address_space(GIB / 2);
    unsigned count = 0;
    // Until ten requests in succession are refused: the keeper may return memory between two.
    for (unsigned refused = 0; refused < 10 && count < BLOCKS;) {
        blocks[count] = kl_malloc(200000);
        refused = blocks[count] == NULL ? refused + 1 : 0;
        if (blocks[count] != NULL) count++;
    }
    CHECK(count > 1000 && count < BLOCKS);
    for (unsigned i = 0; i < count; i++) pattern_fill(blocks[i], 200000, i);
    for (unsigned i = 0; i < count; i += 2) kl_free(blocks[i]);
    for (unsigned i = 0; i < count; i += 2) {
        blocks[i] = kl_malloc(200000);
        CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], 200000, i);
    }
    for (unsigned i = 0; i < count; i++) CHECK(pattern_holds(blocks[i], 200000, 200000, i));
}

// Units of 2 MiB that were prepared and given back are used before a request fails.
TEST(prepared_units_are_used_at_a_limit) {
    size_t warm = kl_warm((size_t)256 * MIB);
    (void)kl_warm(0);
    kl_collect(true);
    if (warm < (size_t)256 * MIB) SKIP("the system does not populate");
    size_t others = 0;
    limit_address_space(GIB);
    others = exhaust(60 * 1024);
    CHECK_WITH(others > GIB / 100 * 90, "%zu bytes", others);
}

// --- Places that other code has taken ------------------------------------------------------------

static bool always(unsigned n) {
    (void)n;
    return true;
}
static bool every_second(unsigned n) {
    return n % 2 == 1;
}
static bool all_but_the_first(unsigned n) {
    return n > 0;
}

static void use_memory(void) {
    enum { BLOCKS = 600 };
    static unsigned char* blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    struct random random = {7};
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (blocks[i] != NULL) CHECK(pattern_holds(blocks[i], sizes[i], sizes[i], i));
            kl_free(blocks[i]);
            sizes[i] = random_size(&random, (size_t)3 * MIB);
            blocks[i] = kl_malloc(sizes[i]);
            CHECK(blocks[i] != NULL);
            pattern_fill(blocks[i], sizes[i], i);
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    CHECK(kl_warm(64 * MIB) == 64 * MIB);
    (void)kl_warm(0);
}

TEST(every_place_is_taken) {
    taken = always;
    use_memory();
    CHECK(pieces > 0);
}
TEST(every_second_place_is_taken) {
    taken = every_second;
    use_memory();
    CHECK(pieces > 0);
}
TEST(all_places_after_the_first_are_taken) {
    taken = all_but_the_first;
    use_memory();
    CHECK(pieces > 1);
}

// Secure flavour: the address of a freed large block is not reused at once, the quarantine is
// bounded, and its memory is available to a program that needs it.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

// A system before Linux 6.13, which has no MADV_GUARD_INSTALL; or one that refuses it from now on,
// or only to remove guards.
static bool refuses_guards, refuses_to_remove;

// A call by which the keeper guards so many bytes does not return while this process forks.
static atomic_size_t held_up_bytes;
static atomic_bool is_held_up;
static int hold_up(long result, size_t bytes) {
    if (bytes < held_up_bytes || held_up_bytes == 0 || gettid() == getpid()) return (int)result;
    is_held_up = true;
    while (held_up_bytes != 0) usleep(1000);
    return (int)result;
}

__attribute__((visibility("default"))) int madvise(void* start, size_t bytes, int advice) {
    bool refuses = refuses_guards || getenv("QUARANTINE_NO_GUARDS") != NULL;
    refuses |= refuses_to_remove && advice == GUARD_REMOVE;
    if (!refuses && advice == GUARD_INSTALL)
        return hold_up(syscall(SYS_madvise, start, bytes, advice), bytes);
    if (!refuses || (advice != GUARD_INSTALL && advice != GUARD_REMOVE))
        return (int)syscall(SYS_madvise, start, bytes, advice);
    errno = EINVAL;
    return -1;
}

// A process that has as many mappings as it may have: none can be divided.
static bool refuses_to_open;
static int refused_calls;
__attribute__((visibility("default"))) int mprotect(void* start, size_t bytes, int protection) {
    if (!refuses_to_open || (protection & PROT_WRITE) == 0) {
        long result = syscall(SYS_mprotect, start, bytes, protection);
        return protection == PROT_NONE ? hold_up(result, bytes) : (int)result;
    }
    refused_calls++;
    errno = ENOMEM;
    return -1;
}

TEST(large_addresses_are_not_reused_at_once) {
    static const size_t sizes[] = {70000, 100000, 200000, 500000, 1000000, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uintptr_t last = 0;
        for (int turn = 0; turn < 100; turn++) {
            void* block = kl_malloc(sizes[i]);
            CHECK(block != NULL);
            CHECK_WITH((uintptr_t)block != last, "%zu bytes, turn %d", sizes[i], turn);
            last = (uintptr_t)block;
            kl_free(block);
        }
    }
}

// No block of 200,000 bytes, which occupies 256 KiB, is used again before the last `waiting` ones.
static void check_wait(int waiting) {
    enum { PLACES = 16 };
    uintptr_t freed[PLACES] = {0};
    for (int turn = 0; turn < 200; turn++) {
        void* block = kl_malloc(200000);
        CHECK(block != NULL);
        for (int i = 0; i < waiting; i++) CHECK((uintptr_t)block != freed[i]);
        freed[turn % waiting] = (uintptr_t)block;
        kl_free(block);
    }
}

// The quarantine takes a sixteenth of what is held: at least 512 KiB, at most 4 MiB.
TEST(two_small_ones_wait_in_a_small_heap) {
    check_wait(2);
}
TEST(a_sixteenth_of_the_heap_waits) {
    CHECK(kl_malloc(32u * MIB) != NULL);
    check_wait(8);
}
TEST(more_wait_in_a_large_heap) {
    CHECK(kl_malloc(128u * MIB) != NULL);
    check_wait(16);
}
TEST(the_quarantine_is_bounded) {
    enum { BLOCKS = 64 };
    static char* blocks[BLOCKS];
    size_t before = resident_bytes();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = kl_malloc(MIB);
        CHECK(blocks[i] != NULL);
        for (size_t at = 0; at < MIB; at += 4096) blocks[i][at] = 1;
    }
    for (int i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    kl_collect(true);
    size_t left = resident_bytes() - before;
    CHECK_WITH(left < 4 * MIB, "%zu KiB are resident", left / KIB);
}

#if KEEL_SECURE
static uint64_t held_bytes(void) {
    struct kl_process process;
    kl_process_info(&process);
    return process.held_bytes;
}

// The quarantine of a small heap is small: with one of 2 MiB, it would hold 16 blocks.
TEST(a_small_heap_keeps_little) {
    enum { BYTES = 65 * 1024 };
    const uint64_t before = held_bytes();
    for (int turn = 0; turn < 100; turn++) {
        char* block = kl_malloc(BYTES);
        CHECK(block != NULL);
        memset(block, 1, BYTES);
        kl_free(block);
    }
    const uint64_t more = held_bytes() - before;
    CHECK_WITH(more >= 2 * BYTES && more < 700 * KIB, "%llu KiB", (unsigned long long)more / KIB);
}

// Blocks that the system refuses to make accessible wait; they are not lost.
TEST(what_the_system_refuses_to_open_is_not_lost) {
    enum { TURNS = 40, BYTES = 1000000, CYCLE_US = 1000 };
    const uint64_t before = held_bytes();
    for (int turn = 0; turn < TURNS; turn++) {
        char* block = kl_malloc(BYTES);
        CHECK(block != NULL);
        memset(block, 1, BYTES);
        refuses_to_open = true;
        kl_free(block);
        usleep(CYCLE_US); // so that the next one is closed, too
        CHECK_WITH(held_bytes() - before < 3 * BYTES, "turn %d", turn);
    }
    refuses_to_open = false;
    kl_free(kl_malloc(BYTES));
    CHECK(held_bytes() - before < 2 * BYTES);
}

// All places have closed blocks. The first refusal is enough.
TEST(a_free_asks_the_system_once) {
    enum { PLACES = 16, BLOCKS = 4 * PLACES, BYTES = 200000, CYCLE_US = 1000 };
    CHECK(kl_malloc(128u * MIB) != NULL);
    char* blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
    int most = 0;
    for (int i = 0; i < BLOCKS; i++) {
        refuses_to_open = i >= PLACES;
        refused_calls = 0;
        kl_free(blocks[i]);
        if (refused_calls > most) most = refused_calls;
        usleep(CYCLE_US);
    }
    CHECK_WITH(most == 1, "%d calls", most);
    refuses_to_open = false;
}

// Blocks of a page return in the order of their frees, except that each 16 of them are mixed.
TEST(small_blocks_return_in_the_order_of_their_frees) {
    enum { PAGES = 4, IN_PAGE = 4096, COUNT = PAGES * IN_PAGE, SLICE = 65536, MIXED = 16 };
    static char* blocks[COUNT];
    static struct {
        uintptr_t slice;
        int freed, returned;
        int order[IN_PAGE]; // of the block at this place: how many were freed before; -1: live
    } pages[2 * PAGES];
    for (int i = 0; i < COUNT; i++) CHECK((blocks[i] = kl_malloc(8)) != NULL);
    for (int i = 0; i < COUNT; i++) {
        uintptr_t slice = (uintptr_t)blocks[i] / SLICE;
        int p = 0;
        while (pages[p].slice != 0 && pages[p].slice != slice) CHECK(++p < 2 * PAGES);
        if (pages[p].slice == 0) memset(pages[p].order, -1, sizeof pages[p].order);
        pages[p].slice = slice;
        if (i % 64 == 0) continue; // so that no page ends
        pages[p].order[(uintptr_t)blocks[i] % SLICE / 16] = pages[p].freed++;
        kl_free(blocks[i]);
    }
    int returned = 0;
    for (int i = 0; i < COUNT / 2; i++) {
        uintptr_t block = (uintptr_t)kl_malloc(8);
        int p = 0;
        while (p < 2 * PAGES && pages[p].slice != block / SLICE) p++;
        if (p == 2 * PAGES) continue;
        int* order = &pages[p].order[block % SLICE / 16];
        if (*order < 0) continue; // it was carved now
        int early = *order - pages[p].returned++;
        CHECK_WITH(early < MIXED && early > -MIXED, "%d places too early", early);
        *order = -1;
        returned++;
    }
    CHECK_WITH(returned > COUNT / 3, "%d blocks were freed before", returned);
}

static void* free_all(void* blocks) {
    for (void** block = blocks; *block != NULL; block++) kl_free(*block);
    return NULL;
}

// What another thread has freed is taken back as soon as the bin is empty, before new blocks are
// carved. In some rounds no maintenance is due, which would take it back, too.
static void* reuse(void* argument) {
    enum { COUNT = 400, SOON = 64, BIN = 16 }; // a page has at least 682 of these blocks
    static void* blocks[COUNT + 1];
    for (size_t bytes = 40; bytes <= 88; bytes += 16) {
        int reused = 0;
        for (int i = 0; i < COUNT; i++) CHECK((blocks[i] = kl_malloc(bytes)) != NULL);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, free_all, blocks) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        for (int i = 0; i < SOON; i++) {
            const void* block = kl_malloc(bytes);
            for (int j = 0; j < COUNT; j++) reused += block == blocks[j];
        }
        CHECK_WITH(reused >= SOON - BIN, "%d blocks of %zu bytes", reused, bytes);
    }
    return argument;
}
TEST(blocks_of_other_threads_come_before_new_ones) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reuse, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

// 64 slices have 64,897 places for free blocks, but room for 262,144 blocks of 16 bytes. The other
// free blocks are linked. No block is lost, and none is given out twice.
TEST(more_blocks_are_free_than_there_are_places) {
    enum { COUNT = 700000, TURNS = 3000000 };
    static uint64_t* blocks[COUNT];
    uint32_t random = 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK((blocks[i] = kl_malloc(8)) != NULL);
        *blocks[i] = i;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i % 64 == 0) continue; // so that no page ends
        kl_free(blocks[i]);
        blocks[i] = NULL;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 1664525 + 1013904223;
        uint32_t i = (uint32_t)((uint64_t)random * COUNT >> 32);
        if (blocks[i] == NULL) {
            CHECK((blocks[i] = kl_malloc(8)) != NULL);
            *blocks[i] = i;
        } else {
            CHECK(*blocks[i] == i);
            kl_free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        if (blocks[i] == NULL) blocks[i] = kl_malloc(8);
        *blocks[i] = i;
    }
    for (uint32_t i = 0; i < COUNT; i++) CHECK(*blocks[i] == i);
    for (uint32_t i = 0; i < COUNT; i++) kl_free(blocks[i]);
}

// The keeper puts guards over blocks that stay in quarantine.
static bool faults(const volatile char* address) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*address == 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}
static bool has_guard_soon(const volatile char* address) {
    for (int i = 0; i < 1000; i++) {
        if (faults(address)) return true;
        usleep(20000);
    }
    return false;
}

// A free makes the block inaccessible at once, unless many blocks were freed just before.
static void free_many(void) {
    enum { COUNT = 64, BYTES = 70000 };
    static char* blocks[COUNT];
    for (int i = 0; i < COUNT; i++) CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
    for (int i = 0; i < COUNT; i++) kl_free(blocks[i]);
}

static void check_guards(void) {
    enum { BLOCKS = 4, BYTES = 70000, MORE = 200 }; // all of the blocks fit
    static char* blocks[BLOCKS];
    kl_option_set(kl_option_reset_delay, 50);
    CHECK(kl_keeper_start());
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = kl_malloc(BYTES);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BYTES);
    }
    free_many();
    for (int i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK_WITH(has_guard_soon(blocks[i]), "block %d", i);
        CHECK(faults(blocks[i] + BYTES / 2) && faults(blocks[i] + BYTES - 1));
    }
    // All of it can be used again, and no new block is where a guard is.
    static char* more[MORE];
    for (int i = 0; i < MORE; i++) {
        more[i] = kl_malloc(BYTES);
        CHECK(more[i] != NULL);
        memset(more[i], 2, BYTES);
    }
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < MORE; i++) {
            kl_free(more[i]);
            if (i % 20 == 0) usleep(10000);
        }
        usleep(100000);
        for (int i = 0; i < MORE; i++) {
            more[i] = kl_malloc(BYTES);
            CHECK(more[i] != NULL);
            memset(more[i], 2, BYTES);
        }
    }
    for (int i = 0; i < MORE; i++) kl_free(more[i]);
}
TEST(the_keeper_guards_blocks_in_quarantine) {
    check_guards();
}
TEST(also_if_the_system_refuses_light_guards) {
    refuses_guards = true;
    check_guards();
}
// 16 blocks keep their guards; the others are not lost.
TEST(what_the_system_refuses_to_unguard_waits) {
    enum { TURNS = 24, BYTES = 200000, HELD_BYTES = 256 * 1024, PLACES = 16 };
    kl_option_set(kl_option_reset_delay, 10);
    CHECK(kl_keeper_start());
    const uint64_t before = held_bytes();
    for (int turn = 0; turn < TURNS; turn++) {
        char* blocks[] = {kl_malloc(BYTES), kl_malloc(BYTES)};
        refuses_to_remove = true;
        kl_free(blocks[0]);
        kl_free(blocks[1]);
        usleep(100000);
        CHECK_WITH(held_bytes() - before <= (PLACES + 4) * HELD_BYTES, "turn %d", turn);
    }
    refuses_to_remove = false;
}

// Only the memory of the quarantine is left. The block has its guards, but is in no place yet.
static void use_what_the_keeper_held(void) {
    enum { BYTES = 3 * MIB };
    CHECK(kl_limit((size_t)held_bytes()) == 0);
    char* block = kl_malloc(BYTES);
    CHECK(block != NULL);
    memset(block, 1, BYTES);
    kl_free(block);
}
TEST(a_child_has_the_block_that_the_keeper_is_guarding) {
    enum { BYTES = 3 * MIB };
    kl_option_set(kl_option_reset_delay, 10);
    CHECK(kl_keeper_start());
    char* block = kl_malloc(BYTES);
    CHECK(block != NULL);
    memset(block, 1, BYTES);
    held_up_bytes = BYTES;
    kl_free(block);
    while (!is_held_up) usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        held_up_bytes = 0;
        use_what_the_keeper_held();
        _exit(0);
    }
    CHECK_CHILD(child);
    held_up_bytes = 0;
}
TEST_DIES(an_access_to_a_freed_block_faults, SIGSEGV, "") {
    char* block = kl_malloc(300000);
    memset(block, 1, 300000);
    kl_free(block);
    block[150000] ^= 1;
}
TEST_DIES(a_second_free_of_a_guarded_block_is_detected, SIGABRT, "keel: double free: ") {
    kl_option_set(kl_option_reset_delay, 50);
    CHECK(kl_keeper_start());
    char* block = kl_malloc(300000);
    memset(block, 1, 300000);
    kl_free(block);
    CHECK(has_guard_soon(block));
    kl_free(block);
}
TEST_DIES(a_write_before_the_guards_is_detected, SIGABRT, "keel: a free block is overwritten: ") {
    kl_option_set(kl_option_reset_delay, 50);
    char* block = kl_malloc(300000);
    for (int turn = 0; turn < 100; turn++) {
        free_many();
        kl_free(block);
        if (!faults(block)) break; // else the many were freed too slowly
        block = kl_malloc(300000);
    }
    block[0] ^= 1;
    CHECK(kl_keeper_start());
    for (int i = 0; i < 1000; i++) usleep(20000);
}
#endif

// The state word of a large block contains the key.
static uint64_t state_of(const char* block) {
    return *(const volatile uint64_t*)(const void*)(block + kl_usable_size(block));
}
static void check_no_state(const char* block, const uint64_t* states, size_t count) {
    const volatile uint64_t* words = (const volatile uint64_t*)(const void*)block;
    for (size_t i = 0; i < kl_usable_size(block) / 8; i++) {
        uint64_t word = words[i];
        for (size_t k = 0; word != 0 && k < count; k++)
            CHECK_WITH(word != states[k] && ~word != states[k], "byte %zu", i * 8);
    }
}

TEST(no_state_word_stays_in_a_block_that_grows_or_shrinks) {
    for (size_t i = 0; i < 10; i++) {
        char* block = kl_malloc(200000 + i * 7000);
        uint64_t states[3] = {state_of(block)};
        block = kl_realloc(block, 300000 + i * 7000);
        states[1] = state_of(block);
        block = kl_realloc(block, 250000);
        states[2] = state_of(block);
        check_no_state(kl_realloc(block, 400000), states, 3);
    }
}

TEST(no_state_word_of_a_freed_large_block_is_in_a_new_one) {
    static const size_t sizes[] = {100000, 6u * MIB};
    enum { BLOCKS = 40 };
    for (size_t i = 0; i < 2; i++) {
        static char* blocks[BLOCKS];
        static uint64_t states[BLOCKS];
        for (int k = 0; k < BLOCKS; k++) {
            blocks[k] = kl_malloc(sizes[i]);
            CHECK(blocks[k] != NULL);
            states[k] = state_of(blocks[k]);
        }
        for (int k = 0; k < BLOCKS; k++) kl_free(blocks[k]);
        for (int k = 0; k < BLOCKS; k++) {
            blocks[k] = kl_malloc(sizes[i] + sizes[i] / 4);
            check_no_state(blocks[k], states, BLOCKS);
        }
        for (int k = 0; k < BLOCKS; k++) kl_free(blocks[k]);
    }
}

// The limit admits the second block only if the quarantine gives up the first.
TEST(a_program_without_other_memory_gets_it) {
    enum { BLOCK = 3000000 };
    kl_collect(true);
    struct kl_process process;
    kl_process_info(&process);
    CHECK(kl_limit((size_t)process.held_bytes + BLOCK + MIB) == 0);
    for (int turn = 0; turn < 20; turn++) {
        void* block = kl_malloc(BLOCK);
        CHECK_WITH(block != NULL, "turn %d", turn);
        kl_free(block);
    }
    kl_limit(0);
}

// Freed memory stays warm for a purge delay and then goes back, without a keeper: large blocks that
// come and go take no page fault, and a program of one thread gets small.
#include "allocator/heap/pool.h"
#include "allocator/large/jumbo.h"
#include "allocator/space/run.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "faults.h"
#include "keel/keel.h"
#include "os/memory.h"
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define DELAY_MS 200

static uint64_t event(enum event which) {
    return event_total(which);
}

static void touch(char* block, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096) block[at] = 1;
}

static void sleep_ms(unsigned milliseconds) {
    struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

// The purge delay is long here, so that a slow machine changes nothing: nothing may be purged.
static void test_large_blocks_in_turn(size_t low, size_t high, unsigned count) {
    uint64_t random = 1;
    kl_collect(true);
    option_set(OPTION_RESET_DELAY, 600000);
    long before = faults();
    for (unsigned i = 0; i < count; i++) {
        size_t bytes = low + random_next(&random) % (high - low + 1);
        char* block = kl_malloc(bytes);
        CHECK(block != NULL);
        touch(block, bytes);
        kl_free(block);
    }
    long taken = faults() - before;
    // The largest block takes its faults once, and a cut or a growth some more.
    CHECK(taken <= (long)(2 * high / 4096 + 1000));
    CHECK(run_check());
    kl_collect(true);
    CHECK(mapping_cache_bytes() == 0);
}

// Blocks of many sizes, some of them resized: each keeps its content, calloc's are zero.
// Scattered mappings: every other one of many large blocks is freed and allocated again. They all
// find a place in the cache, so that only the first blocks take faults and system calls.
static void test_large_blocks_replaced(void) {
    enum { LIVE = 400, ROUNDS = 4 };
    static char* blocks[LIVE];
    kl_collect(true);
    fill_forget(); // the blocks before this test were filled; these are not
    option_set(OPTION_RESET_DELAY, 600000);
    for (unsigned i = 0; i < LIVE; i++) CHECK((blocks[i] = kl_malloc(5 * MIB)) != NULL);
    for (unsigned i = 0; i < LIVE; i++) blocks[i][0] = 1;
    uint64_t calls = event(EVENT_INLINE_CALLS);
    long before = faults();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = round % 2; i < LIVE; i += 2) kl_free(blocks[i]);
        for (unsigned i = round % 2; i < LIVE; i += 2) {
            CHECK((blocks[i] = kl_malloc(5 * MIB)) != NULL);
            blocks[i][0] = 1;
        }
    }
    CHECK(event(EVENT_INLINE_CALLS) == calls);
    CHECK(faults() - before < 100);
    for (unsigned i = 0; i < LIVE; i++) kl_free(blocks[i]);
    kl_collect(true);
    CHECK(run_check() && mapping_cache_bytes() == 0);
}

static void test_contents(void) {
    enum { SLOTS = 12, STEPS = 1500 };
    struct {
        unsigned char* block;
        size_t bytes;
        unsigned char mark;
    } slot[SLOTS] = {{NULL, 0, 0}};
    uint64_t random = 7;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned at = (unsigned)(random_next(&random) % SLOTS);
        size_t bytes = MIB / 2 + random_next(&random) % (12 * MIB);
        unsigned choice = (unsigned)(random_next(&random) % 4);
        size_t kept = 0;
        if (choice == 0 || slot[at].block == NULL) {
            kl_free(slot[at].block);
            slot[at].block = kl_calloc(1, bytes);
            CHECK(slot[at].block != NULL);
            for (size_t i = 0; i < bytes; i += 509) CHECK(slot[at].block[i] == 0);
        } else if (choice == 1 && step % 2 == 0) {
            kl_free(slot[at].block);
            slot[at].block = kl_aligned_alloc(16384, bytes);
            CHECK(slot[at].block != NULL && (uintptr_t)slot[at].block % 16384 == 0);
        } else if (choice == 1) {
            kl_free(slot[at].block);
            slot[at].block = kl_aligned_alloc(2 * MIB, bytes / (2 * MIB) * (2 * MIB) + 2 * MIB);
            bytes = bytes / (2 * MIB) * (2 * MIB) + 2 * MIB;
            CHECK(slot[at].block != NULL && (uintptr_t)slot[at].block % (2 * MIB) == 0);
        } else {
            kept = bytes < slot[at].bytes ? bytes : slot[at].bytes;
            slot[at].block = kl_realloc(slot[at].block, bytes);
            CHECK(slot[at].block != NULL);
        }
        for (size_t i = 0; i < kept; i += 4096) CHECK(slot[at].block[i] == slot[at].mark);
        slot[at].mark = (unsigned char)(step % 251 + 1);
        slot[at].bytes = bytes;
        CHECK(kl_usable_size(slot[at].block) >= bytes);
        for (size_t i = 0; i < bytes; i += 4096) slot[at].block[i] = slot[at].mark;
        slot[at].block[bytes - 1] = slot[at].mark;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        for (size_t at = 0; at < slot[i].bytes; at += 4096)
            CHECK(slot[i].block[at] == slot[i].mark);
        kl_free(slot[i].block);
    }
    CHECK(jumbo_live_bytes() == 0 && run_check());
}

// calloc of a warm mapping that was hardly used: what was used is zero, and the rest gets no
// memory.
static void test_sparse_calloc(void) {
    kl_collect(true);
    option_set(OPTION_RESET_DELAY, 600000);
    unsigned char* block = kl_malloc(64 * MIB);
    CHECK(block != NULL);
    for (size_t at = 0; at < 64 * MIB; at += 8 * MIB) memset(block + at + 5000, 0xA5, 9000);
    kl_free(block);
    long before = faults();
    block = kl_calloc(1, 64 * MIB);
    CHECK(block != NULL && faults() - before < 100);
    for (size_t at = 0; at < 64 * MIB; at += 8 * MIB) {
        for (size_t i = 0; i < 16384; i++) CHECK(block[at + i] == 0);
    }
    kl_free(block);
    kl_collect(true);
}

// Small mallocs and frees, as a program does that has nothing large to do.
static void small_calls(unsigned count) {
    static void* blocks[40];
    for (unsigned i = 0; i < count; i++) {
        for (unsigned j = 0; j < 40; j++)
            CHECK((blocks[j] = kl_malloc(16 + (i + j) % 500)) != NULL);
        for (unsigned j = 0; j < 40; j++) kl_free(blocks[j]);
    }
}

// After a burst the surplus goes back while the program makes small calls only.
static void test_burst(size_t each) {
    enum { BURST = 64 };
    size_t count = BURST * MIB / each;
    option_set(OPTION_RESET_DELAY, DELAY_MS);
    char** blocks = kl_malloc(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = kl_malloc(each)) != NULL);
        touch(blocks[i], each);
    }
    for (size_t i = 0; i < count; i++) kl_free(blocks[i]);
    kl_free(blocks);
    CHECK(run_dirty_slices() * 65536 + mapping_cache_bytes() > BURST * MIB / 2); // kept at first
    for (unsigned wait = 0; wait < 400; wait++) {
        if (run_dirty_slices() * 65536 + mapping_cache_bytes() < 4 * MIB) break;
        small_calls(200);
        sleep_ms(10);
    }
    CHECK(run_dirty_slices() * 65536 + mapping_cache_bytes() < 4 * MIB);
    CHECK(run_check());
}

// A negative delay: nothing is ever purged.
static void test_never(void) {
    kl_collect(true);
    option_set(OPTION_RESET_DELAY, -1);
    uint64_t purges = event(EVENT_PURGE);
    uint64_t unmaps = event(EVENT_UNMAP);
    for (unsigned i = 0; i < 200; i++) {
        char* block = kl_malloc(MIB + i % 8 * MIB);
        CHECK(block != NULL);
        kl_free(block);
        small_calls(5);
    }
    CHECK(event(EVENT_PURGE) == purges && event(EVENT_UNMAP) <= unmaps + 2);
    kl_collect(true);
}

// The owner refills from its current page all the time; blocks that another thread freed come back
// all the same.
static void* free_all(void* argument) {
    char** blocks = argument;
    for (unsigned i = 0; blocks[i] != NULL; i++) kl_free(blocks[i]);
    return NULL;
}
static void test_busy_owner(void) {
    enum { COUNT = 20000, BYTES = 1000 };
    static char* blocks[COUNT + 1];
    pthread_t other;
    for (unsigned i = 0; i < COUNT; i++) CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
    small_calls(10);
    size_t live = run_live_slices();
    CHECK(pthread_create(&other, NULL, free_all, blocks) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    small_calls(4000);
    CHECK(remote_queue_is_empty(&thread_heap->remote_queue));
    CHECK(run_live_slices() < live / 4);
}

// Blocks that shrink leave pieces in which no next one fits, so idle memory exceeds the bound. What
// goes back is taken again at once: then the bound rises, and little goes back later. But not
// without end.
static void test_refaults(void) {
    enum { LIVE = 64, SHRUNK = 4000, BYTES = 256 << 10 };
    static char* blocks[LIVE];
    uint64_t random = 1;
    kl_collect(true);
    option_set(OPTION_RESET_DELAY, 600000);
    uint64_t purged = event(EVENT_PURGED_SLICES);
    for (unsigned i = 0; i < SHRUNK; i++) {
        char** block = &blocks[random_next(&random) % LIVE];
        kl_free(*block);
        CHECK((*block = kl_malloc(BYTES)) != NULL);
        touch(*block, BYTES);
        *block = kl_realloc(*block, 1 + random_next(&random) % (BYTES / 2));
        CHECK(*block != NULL);
    }
    purged = event(EVENT_PURGED_SLICES) - purged;
    CHECK(purged > 0 && purged < SHRUNK / 20);
    size_t most = atomic_get(&policy.peak_now);
    CHECK(policy_used() + policy_idle() <= most + most / REFAULT_SHARE + policy_budget(most) + 1);
    for (unsigned i = 0; i < LIVE; i++) kl_free(blocks[i]);
    kl_collect(true);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    test_refaults(); // first: the highest use is that of this test
    test_large_blocks_in_turn(6 * MIB, 6 * MIB, 40);
    test_large_blocks_in_turn(2 * MIB, 2 * MIB, 40);
    test_large_blocks_in_turn(4 * MIB, 100 * MIB, 30);
    test_large_blocks_in_turn(100 * MIB, 100 * MIB, 10);
    test_large_blocks_replaced();
    option_set(OPTION_RESET_DELAY, 500);
    test_contents();
    test_sparse_calloc();
    test_burst(1000);
    test_burst(40000);
    test_burst(300000);
    test_burst(9 * MIB);
    test_never();
    option_set(OPTION_RESET_DELAY, DELAY_MS);
    test_busy_owner();
    check_work_bounds();
    printf("warm: passed\n");
    return 0;
}

// How many calls to the system one call makes for fresh blocks (slices/fresh.h): a free of a block
// that nobody has looked at asks which of its pages are resident. No keeper runs, so nobody does.
// This program defines the functions through which Keel reaches the system.
#include "allocator/slices/fresh.h"
#include "allocator/slices/mapping_cache.h"
#include "allocator/slices/reserve.h"
#include "allocator/slices/run.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include "os/process.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

// As the latency contract and docs/reference/bounds.md state them.
enum { LOOKS_MAX = 4, MALLOC_LOOKS_MAX = 12, FREE_CALLS_MAX = 6, FREE_CALLS_MAX_JUMBO = 44 };

static _Thread_local unsigned looks; // of this thread
static _Thread_local unsigned calls; // with these
static bool ends_meanwhile;          // the keeper ends during a look

int mincore(void* start, size_t bytes, unsigned char* resident) {
    looks++;
    calls++;
    if (ends_meanwhile) fresh_forget();
    return (int)syscall(SYS_mincore, start, bytes, resident);
}

int madvise(void* start, size_t bytes, int advice) {
    calls++;
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

int munmap(void* start, size_t bytes) {
    calls++;
    return (int)syscall(SYS_munmap, start, bytes);
}

// Checks the bounds of the call.
static void free_counted(void* block) {
    size_t bytes = block == NULL ? 0 : kl_usable_size(block);
    looks = calls = 0;
    kl_free(block);
    CHECK(looks <= (bytes < FRESH_BYTES_MIN ? 0 : LOOKS_MAX));
    CHECK(calls <= (bytes < 4 * MIB ? FREE_CALLS_MAX : FREE_CALLS_MAX_JUMBO));
}

static char* resize_counted(char* block, size_t bytes) {
    looks = 0;
    char* resized = kl_realloc(block, bytes);
    CHECK(resized != NULL && looks <= LOOKS_MAX + MALLOC_LOOKS_MAX);
    return resized;
}

static char* allocate(size_t bytes) {
    looks = 0;
    char* block = kl_malloc(bytes);
    CHECK(block != NULL && looks <= MALLOC_LOOKS_MAX);
    return block;
}

// A keeper runs, and has learnt nothing yet.
static void keeper_begins(void) {
    fresh_forget();
    fresh_expect_looks();
}

// The next block gets memory that is not resident.
static void make_cold(void) {
    kl_collect(true);
    mapping_cache_clear();
}

// --- One block -----------------------------------------------------------------------------------

enum filling { EMPTY, FRONT, SCATTERED, FILLED, FILLINGS };

static void touch(char* block, size_t bytes, enum filling filling) {
    if (filling == EMPTY) return;
    size_t end = filling == FRONT ? bytes / 2 : bytes;
    size_t stride = filling == SCATTERED ? bytes / 8 : 4 * KIB;
    for (size_t at = 0; at < end; at += stride) block[at] = 1;
}

// The calls of one free do not grow with the block.
static void test_sizes(void) {
    for (size_t bytes = 64 * KIB; bytes <= 64 * MIB; bytes += bytes / 4) {
        for (enum filling filling = EMPTY; filling < FILLINGS; filling++) {
            keeper_begins();
            make_cold();
            char* block = allocate(bytes);
            touch(block, bytes, filling);
            free_counted(block);
            // It begins at the end: where that is not resident, one look is enough.
            unsigned expected = filling == FILLED ? LOOKS_MAX : 1;
            if (bytes >= FRESH_BYTES_MIN) CHECK(looks == expected);
            CHECK(fresh_is_expected(4 * MIB) == (bytes >= FRESH_BYTES_MIN && filling == FILLED));
        }
    }
}

// A block that becomes small, or moves to another place, is not looked at any more.
static void test_resized(size_t bytes, size_t resized) {
    for (unsigned i = 0; i < 2 * FRESH_PLACES; i++) {
        keeper_begins();
        make_cold();
        char* block = allocate(bytes);
        char* behind = kl_malloc(64 * KIB + 1); // the block cannot grow where it is
        block = resize_counted(block, resized);
        free_counted(block);
        kl_free(behind);
        CHECK(!fresh_look(os_clock_ms())); // nothing is left
    }
    make_cold();
    free_counted(allocate(bytes));
}

// Without a keeper, nobody would notice that the program fills no more blocks.
static void test_no_keeper(void) {
    make_cold();
    fresh_forget();
    char* block = allocate(8 * MIB);
    touch(block, 8 * MIB, FILLED);
    free_counted(block);
    CHECK(looks == 0 && !fresh_is_expected(8 * MIB));
}

// Nor after it has ended, before a block ends or while the thread looks at it.
static void test_keeper_ends(void) {
    for (unsigned i = 0; i < 2; i++) {
        keeper_begins();
        make_cold();
        char* block = allocate(8 * MIB);
        touch(block, 8 * MIB, FILLED);
        ends_meanwhile = i == 1;
        free_counted(block);
        ends_meanwhile = false;
        CHECK(fresh_is_expected(8 * MIB) == (i == 0));
        fresh_forget();
        CHECK(!fresh_is_expected(8 * MIB));
    }
}

// --- Many threads --------------------------------------------------------------------------------

enum { THREADS = 8, STEPS = 300, BLOCKS = 6 };

static atomic_state ends;

static void* use_blocks(void* seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    char* blocks[BLOCKS] = {NULL};
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)(random_next(&random) % BLOCKS);
        size_t bytes = 64 * KIB + random_next(&random) % (step % 4 == 0 ? 5 * MIB : 2 * MIB);
        if (step % 3 == 0) {
            blocks[i] = resize_counted(blocks[i], bytes);
        } else {
            free_counted(blocks[i]);
            blocks[i] = allocate(bytes);
        }
        touch(blocks[i], bytes, step % 2 == 0 ? FILLED : SCATTERED);
    }
    for (unsigned i = 0; i < BLOCKS; i++) free_counted(blocks[i]);
    return NULL;
}

// The keeper is late, and finds that blocks are not filled.
static void* look_at_times(void* unused) {
    for (unsigned i = 0; atomic_get(&ends) == 0; i++) {
        if (i % 4 == 0) fresh_forget();
        fresh_expect_looks();
        (void)fresh_look(os_clock_ms());
        if (i % 4 == 1) reserve_discard_all();
        (void)usleep(2000);
    }
    return unused;
}

static void test_many_threads(void) {
    pthread_t threads[THREADS];
    pthread_t keeper;
    CHECK(pthread_create(&keeper, NULL, look_at_times, NULL) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_blocks, (void*)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_set(&ends, 1);
    CHECK(pthread_join(keeper, NULL) == 0);
    CHECK(!fresh_look(os_clock_ms())); // each place was that of a block
    CHECK(run_check());
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_RESET_DELAY, 600000);
    reserve_set_huge(false);
    test_sizes();
    test_resized(3 * MIB / 2, 900 * KIB); // where it is
    test_resized(3 * MIB / 2, 3 * MIB);
    test_resized(3 * MIB, 6 * MIB); // to a mapping
    test_resized(6 * MIB, 5 * MIB);
    test_resized(6 * MIB, 30 * MIB);
    test_resized(6 * MIB, 2 * MIB); // a copy
    test_no_keeper();
    test_keeper_ends();
    test_many_threads();
    return 0;
}

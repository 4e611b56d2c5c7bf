// The estimate of how far the program fills its large blocks (warm/fill.h), and how many calls to
// the system it takes. This program defines the functions through which Keel asks for residence.
#include "allocator/warm/fill.h"
#include "allocator/space/page_map.h"
#include "allocator/space/run.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/policy.h"
#include "allocator/warm/reserve.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

// As the latency contract states them: of the probes of one range, and of the block itself.
enum { LOOKS_MAX = FILL_PLACES * FILL_SAMPLES, RESIZE_LOOKS_MAX = 3 * LOOKS_MAX + FILL_SAMPLES };

static _Thread_local unsigned looks; // of this thread

int mincore(void* start, size_t bytes, unsigned char* resident) {
    looks++;
    return (int)syscall(SYS_mincore, start, bytes, resident);
}

static void free_counted(void* block) {
    looks = 0;
    kl_free(block);
    CHECK(looks <= FILL_SAMPLES);
}

static char* resize_counted(char* block, size_t bytes) {
    looks = 0;
    char* resized = kl_realloc(block, bytes);
    CHECK(resized != NULL && looks <= RESIZE_LOOKS_MAX);
    return resized;
}

static char* allocate(size_t bytes) {
    looks = 0;
    char* block = kl_malloc(bytes);
    CHECK(block != NULL && looks <= LOOKS_MAX);
    return block;
}

// Nothing is known, and the next block gets memory that is not resident.
static void begin(void) {
    kl_collect(true);
    mapping_cache_clear();
    fill_forget();
}

static void touch(char* block, size_t bytes, size_t stride) {
    for (size_t at = 0; at < bytes; at += stride) block[at] = 1;
}

// --- One block -----------------------------------------------------------------------------------

static void test_one_block(void) {
    for (size_t bytes = 68 * KIB; bytes <= 64 * MIB; bytes += bytes / 4) {
        begin();
        CHECK(!fill_is_expected(bytes));
        char* block = allocate(bytes);
        touch(block, bytes, 4 * KIB);
        free_counted(block);
        kl_collect(true); // a small one may have been kept by the heap
        bool filled = fill_is_expected(bytes);
        begin();
        block = allocate(bytes);
        block[0] = 1;
        free_counted(block);
        kl_collect(true);
        CHECK(!fill_is_expected(bytes));
        if (bytes > 256 * KIB) CHECK(filled);
    }
}

// A page that becomes full a second time is watched once, so its end takes one look.
static void test_watched_twice(void) {
    begin();
    char* block = allocate(SLICE_BYTES + 1);
    fill_forget();
    fill_watch(block, SLICE_BYTES, SLICE_BYTES);
    fill_watch(block, SLICE_BYTES, SLICE_BYTES);
    looks = 0;
    fill_end(block, SLICE_BYTES);
    CHECK(looks == FILL_SAMPLES);
    kl_free(block);
}

// No stride of the touches meets all of the places that a look chooses.
static void test_strides(void) {
    enum { BLOCKS = 40, BYTES = 6 };
    static char* blocks[BLOCKS];
    static const size_t touches[] = {2, 5, 8, 10, 16, 25, 50, 64, 100, 128};
    for (unsigned t = 0; t < sizeof touches / sizeof *touches; t++) {
        begin();
        size_t used = policy_used();
        for (unsigned i = 0; i < BLOCKS; i++) {
            blocks[i] = allocate(BYTES * MIB);
            touch(blocks[i], BYTES * MIB, BYTES * MIB / touches[t]);
            CHECK(!fill_is_expected(BYTES * MIB));
        }
        CHECK(policy_used() - used <= BLOCKS * BYTES * MIB / SLICE_BYTES / 4);
        for (unsigned i = 0; i < BLOCKS; i++) free_counted(blocks[i]);
    }
}

// A range learns nothing from blocks of another one.
static void test_ranges(void) {
    begin();
    char* block = allocate(700 * KIB);
    touch(block, 700 * KIB, 4 * KIB);
    free_counted(block);
    CHECK(fill_is_expected(700 * KIB) && fill_is_expected(300 * KIB));
    CHECK(!fill_is_expected(100 * KIB) && !fill_is_expected(2 * MIB) &&
          !fill_is_expected(20 * MIB));
}

// A filled block says nothing about one that is many times as large.
static void test_much_larger(void) {
    begin();
    char* block = allocate(70 * MIB);
    touch(block, 70 * MIB, 4 * KIB);
    free_counted(block);
    CHECK(fill_is_expected(70 * MIB) && fill_is_expected(250 * MIB));
    CHECK(!fill_is_expected(300 * MIB) && !fill_is_expected((size_t)4 << 40));
    CHECK(!fill_is_expected(SIZE_MAX));
}

// A program that allocates several blocks before it fills them.
static void test_filled_later(void) {
    enum { BLOCKS = 12 };
    char* blocks[BLOCKS];
    begin();
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = allocate(2 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++) touch(blocks[i], 2 * MIB, 4 * KIB);
    for (unsigned i = 0; i < BLOCKS; i++) free_counted(blocks[i]);
    CHECK(fill_is_expected(2 * MIB));
}

static unsigned blocks_to_probe(size_t bytes) {
    unsigned blocks = 1;
    while (!fill_is_probe(bytes)) blocks++;
    return blocks;
}

// Each filled probe doubles the number of blocks to the next one, and one that is not ends that.
static void test_interval(void) {
    begin();
    char* block = allocate(3 * MIB);
    fill_forget();
    touch(block, 3 * MIB, 4 * KIB);
    for (unsigned probes = 1; probes <= FILL_DOUBLINGS + 2; probes++) {
        fill_watch(block, 3 * MIB, 3 * MIB);
        fill_end(block, 3 * MIB);
        unsigned doublings = probes < FILL_DOUBLINGS ? probes : FILL_DOUBLINGS;
        CHECK(blocks_to_probe(3 * MIB) == (unsigned)FILL_DRAWS << doublings && fill_check());
    }
    CHECK(madvise(block, 3 * MIB, MADV_DONTNEED) == 0);
    fill_watch(block, 3 * MIB, 3 * MIB);
    fill_end(block, 3 * MIB);
    CHECK(blocks_to_probe(3 * MIB) == FILL_DRAWS);
    free_counted(block);
}

// A program that stops filling its blocks: the probe shows it.
static void test_changes(void) {
    enum { BLOCKS = 64 };
    char* blocks[BLOCKS];
    begin();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(3 * MIB);
        touch(blocks[i], 3 * MIB, 4 * KIB);
    }
    CHECK(fill_is_expected(3 * MIB));
    for (unsigned i = 0; i < BLOCKS; i++) free_counted(blocks[i]);
    kl_collect(true);
    mapping_cache_clear();
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = allocate(3 * MIB);
    CHECK(!fill_is_expected(3 * MIB));
    for (unsigned i = 0; i < BLOCKS; i++) free_counted(blocks[i]);
}

// The block that begins where a probe ended is not taken for it.
static void test_resized(size_t bytes, size_t resized) {
    for (unsigned i = 0; i < 4 * FILL_PLACES; i++) {
        begin();
        char* block = allocate(bytes);
        char* behind = kl_malloc(64 * KIB + 1); // the block cannot grow where it is
        block = resize_counted(block, resized);
        free_counted(block);
        kl_free(behind);
    }
    CHECK(policy_check());
}

// --- Many threads --------------------------------------------------------------------------------

enum { THREADS = 8, STEPS = 300, BLOCKS = 6 };

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
        touch(blocks[i], bytes, step % 2 == 0 ? 4 * KIB : bytes / 8);
    }
    for (unsigned i = 0; i < BLOCKS; i++) free_counted(blocks[i]);
    return NULL;
}

static void test_many_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_blocks, (void*)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    kl_collect(true);
    CHECK(run_check() && policy_check());
    CHECK(atomic_get(&policy.kept) == 0);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_RESET_DELAY, 600000);
    policy_set_huge(false);
    test_one_block();
    test_watched_twice();
    test_strides();
    test_ranges();
    test_much_larger();
    test_filled_later();
    test_interval();
    test_changes();
    test_resized(3 * MIB / 2, 900 * KIB); // where it is
    test_resized(3 * MIB / 2, 3 * MIB);
    test_resized(3 * MIB, 6 * MIB); // to a mapping
    test_resized(6 * MIB, 5 * MIB);
    test_resized(6 * MIB, 30 * MIB);
    test_resized(6 * MIB, 2 * MIB); // a copy
    test_many_threads();
    return 0;
}

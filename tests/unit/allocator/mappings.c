// Which memory a large block gets: a cached mapping, a mapping that grows, or a fresh one. Counts
// bytes and page faults. No keeper runs: the test looks at the fresh blocks in its place.
#include "allocator/slices/fresh.h"
#include "allocator/slices/jumbo.h"
#include "allocator/slices/mapping_cache.h"
#include "allocator/slices/reserve.h"
#include "allocator/slices/run.h"
#include "allocator/slices/window.h"
#include "base/options.h"
#include "check.h"
#include "faults.h"
#include "keel/keel.h"
#include "os/process.h"
#include <string.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

static char* filled(size_t bytes) {
    char* block = kl_malloc(bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    return block;
}

// The program fills its blocks: the next ones are expected to be filled.
static void learn_filling(void) {
    char* block[FRESH_STREAK + 1];
    fresh_expect_looks();
    for (unsigned i = 0; i <= FRESH_STREAK; i++) {
        block[i] = filled(8 * MIB);
        (void)fresh_look(os_clock_ms());
    }
    CHECK(fresh_is_expected(8 * MIB));
    for (unsigned i = 0; i <= FRESH_STREAK; i++) kl_free(block[i]);
    mapping_cache_clear();
}

// A block that nobody has looked at before its end is looked at then.
static void test_one_filled_block_is_enough(void) {
    fresh_forget();
    fresh_expect_looks(); // a keeper runs
    mapping_cache_clear();
    char* block = kl_malloc(8 * MIB);
    memset(block, 1, 4 * MIB);
    kl_free(block);
    CHECK(!fresh_is_expected(8 * MIB));
    mapping_cache_clear();
    block = kl_malloc(8 * MIB);
    memset(block + 6 * MIB, 1, 2 * MIB);
    kl_free(block);
    CHECK(!fresh_is_expected(8 * MIB));
    mapping_cache_clear();
    kl_free(filled(8 * MIB));
    CHECK(fresh_is_expected(8 * MIB));
    mapping_cache_clear();
}

// Most programs fill a block before they allocate the next one, which looks at it.
static void test_next_block_learns(void) {
    enum { BLOCKS = 4 };
    char* blocks[BLOCKS];
    fresh_forget();
    fresh_expect_looks(); // a keeper runs
    mapping_cache_clear();
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(8 * MIB)) != NULL);
        memset(blocks[i], 1, 4 * MIB); // not to the end
    }
    CHECK(!fresh_is_expected(8 * MIB));
    while (fresh_look(os_clock_ms() + 2 * FRESH_LOOK_MS)) {
    } // their time is over
    fresh_forget();
    fresh_expect_looks();
    char* first = filled(8 * MIB);
    long before = faults();
    char* second = filled(8 * MIB);
    CHECK(fresh_is_expected(8 * MIB) && faults() - before < 1024); // 8 MiB have 2,048 small pages
    kl_free(first);
    kl_free(second);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    mapping_cache_clear();
}

// A block that is filled and doubles will be filled again: a mapping whatever other blocks do, one
// on slices if such blocks are filled.
static void test_doubling_takes_huge_pages(void) {
    for (size_t bytes = 2 * MIB; bytes <= 16 * MIB; bytes *= 2) {
        if (bytes == 2 * MIB) learn_filling();
        mapping_cache_clear();
        if (bytes > 2 * MIB) fresh_forget();
        char* block = filled(bytes);
        fresh_end(block); // so that nobody else looks at it
        if (bytes > 2 * MIB) fresh_forget();
        long before = faults();
        block = kl_realloc(block, bytes == 2 * MIB ? 6 * MIB : 2 * bytes); // 4 may fit in place
        CHECK(block != NULL && block[bytes - 1] == 1);
        CHECK(fresh_is_expected(8 * MIB) == (bytes == 2 * MIB));
        memset(block + bytes, 1, bytes);
        // The first and the last huge page may be covered in part only.
        CHECK(faults() - before < 600);
        kl_free(block);
    }
    mapping_cache_clear();
    fresh_forget();
    char* sparse = kl_malloc(8 * MIB);
    sparse[0] = 1;
    long before = faults();
    sparse = kl_realloc(sparse, 16 * MIB);
    CHECK(sparse != NULL && sparse[0] == 1);
    memset(sparse + 8 * MIB, 1, 8 * MIB);
    CHECK(faults() - before >= 2048);
    kl_free(sparse);
    mapping_cache_clear();
}

// A cached mapping grows by huge pages.
static void test_mapping_grows_by_huge_pages(void) {
    fresh_forget();
    char* first = filled(16 * MIB); // by small pages
    fresh_end(first);               // so that the keeper does not request huge pages for it
    learn_filling();
    kl_free(first);
    long before = faults();
    char* block = filled(17 * MIB);
    CHECK(mapping_cache_bytes() == MIB); // the rest of a huge page
    CHECK(faults() - before < 100);      // the new 1 MiB has 256 small pages
    kl_free(block);
    mapping_cache_clear();
}

// A freed mapping that is too small for the next block would have to grow by small pages.
static void test_small_mapping_stays(void) {
    learn_filling();
    kl_free(filled(5 * MIB));
    size_t cached = mapping_cache_bytes();
    CHECK(cached >= 5 * MIB);
    long before = faults();
    char* block = filled(16 * MIB);
    CHECK(mapping_cache_bytes() >= cached);
    CHECK(faults() - before < 1024); // 16 MiB have 4,096 small pages
    kl_free(block);
    mapping_cache_clear();
}

// One of three quarters of the size grows.
static void test_nearly_large_mapping_grows(void) {
    learn_filling();
    kl_free(filled(8 * MIB));
    CHECK(mapping_cache_bytes() == 8 * MIB);
    char* block = filled(10 * MIB);
    CHECK(mapping_cache_bytes() == 0);
    kl_free(block);
    mapping_cache_clear();
}

// But unused memory above an eighth of what is live and 8 MiB is used.
static void test_large_mapping_grows(void) {
    learn_filling();
    char* live = filled(40 * MIB);
    kl_free(filled(24 * MIB));
    CHECK(mapping_cache_bytes() >= 24 * MIB);
    char* block = filled(32 * MIB);
    CHECK(mapping_cache_bytes() <= 8 * MIB);
    kl_free(live);
    kl_free(block);
    mapping_cache_clear();
}

// A mapping that shrinks to less than half becomes a smaller block on memory that is warm.
static void test_shrunk_is_warm(void) {
    char* block = filled(8 * MIB);
    char* other = filled(5 * MIB);
    kl_free(other);
    CHECK(mapping_cache_bytes() >= 5 * MIB);
    long before = faults();
    block = kl_realloc(block, 3 * MIB);
    CHECK(block != NULL && block[3 * MIB - 1] == 1);
    CHECK(faults() - before < 256); // 3 MiB have 768 pages
    kl_free(block);
    mapping_cache_clear();
}

// A fresh block that ends before anybody has looked at it leaves nothing to be looked at.
static void test_ended_does_not_wait(void) {
    kl_free(kl_malloc(8 * MIB));
    CHECK(fresh_waits());
    CHECK(!fresh_look(os_clock_ms()) && !fresh_waits());
    mapping_cache_clear();
}

// Of the cached mappings that are large enough, a block takes the smallest.
static void test_smallest_fits(void) {
    enum { BLOCKS = 8 };
    char* blocks[BLOCKS];
    char* large = filled(20 * MIB);
    unsigned count = 0;
    char* small;
    do { // neighbours would be joined
        CHECK(count < BLOCKS);
        small = blocks[count++] = filled(6 * MIB);
    } while (small + 6 * MIB == large || large + 20 * MIB == small);
    kl_free(small);
    kl_free(large);
    CHECK(mapping_cache_bytes() >= 26 * MIB);
    char* block = kl_malloc(5 * MIB);
    CHECK(block == small);
    kl_free(block);
    while (--count > 0) kl_free(blocks[count - 1]);
    mapping_cache_clear();
}

// A block that shrinks by too little to be cut does not move into a cached mapping, which may be
// shorter than the block: its end would replace what is mapped behind.
static void test_slightly_shrunk_stays(void) {
    const size_t kib = 1024;
    kl_free(filled(8 * MIB));
    bool zero;
    char* middle = jumbo_allocate(1472 * kib, 1, &zero);
    char* behind = jumbo_allocate(1600 * kib, 1, &zero);
    char* block = jumbo_allocate(1600 * kib, 1, &zero);
    char* last = jumbo_allocate(1600 * kib, 1, &zero); // nothing free is beside the block
    CHECK(middle + 1472 * kib == behind);
    memset(block, 1, 1600 * kib);
    memset(behind, 1, 1600 * kib);
    kl_free(middle);
    CHECK(kl_realloc(block, 1376 * kib) == block);
    for (size_t i = 0; i < 1376 * kib; i++) CHECK(block[i] == 1);
    for (size_t i = 0; i < 1600 * kib; i++) CHECK(behind[i] == 1);
    kl_free(block);
    kl_free(behind);
    kl_free(last);
    mapping_cache_clear();
}

// Where the control group has no room for it, a freed mapping does not stay, unless little is warm.
static void test_full_group_keeps_no_mapping(void) {
    char* first = filled(8 * MIB);
    char* second = filled(8 * MIB);
    kl_free(first);
    size_t cached = mapping_cache_bytes();
    CHECK(cached >= 8 * MIB);
    reserve_set_cap(reserve_held_slices() - 1);
    kl_free(second);
    CHECK(mapping_cache_bytes() <= cached);
    reserve_set_cap(SIZE_MAX);
    mapping_cache_clear();
}

// Of blocks from FRESH_BYTES_MIN on: else a program that allocates and frees them in turn would
// have both cached mappings and the warm slices that the keeper prepares for it.
static void test_cached_before_warm_slices(void) {
    kl_free(kl_malloc(1)); // now there is a window with units
    kl_free(filled(4 * MIB));
    size_t cached = mapping_cache_bytes();
    CHECK(cached >= 4 * MIB);
    reserve_set_huge(true);
    CHECK(reserve_populate_huge() == HUGE_SLICES);
    char* block = filled(2 * MIB);
    CHECK(mapping_cache_bytes() <= cached - 2 * MIB && run_dirty_slices() >= HUGE_SLICES);
    kl_free(block);
    mapping_cache_clear();
    block = filled(2 * MIB); // nothing is cached
    CHECK(run_dirty_slices() < HUGE_SLICES);
    kl_free(block);
    reserve_discard_all();
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_RESET_DELAY, 600000); // nothing gets too old
    test_ended_does_not_wait();
    test_shrunk_is_warm();
    test_smallest_fits();
    test_full_group_keeps_no_mapping();
    test_slightly_shrunk_stays();
    test_one_filled_block_is_enough();
    test_next_block_learns();
    test_doubling_takes_huge_pages();
    test_mapping_grows_by_huge_pages();
    test_small_mapping_stays();
    test_nearly_large_mapping_grows();
    test_large_mapping_grows();
    test_cached_before_warm_slices();
    check_work_bounds();
    return 0;
}

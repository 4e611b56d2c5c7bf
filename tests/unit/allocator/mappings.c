// Which memory a large block gets: a cached mapping, a mapping that grows, or a fresh one. Counts
// bytes and page faults. No keeper runs: the test looks at the fresh blocks in its place.
#include "allocator/large/jumbo.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
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
    mapping_cache_clear();
    fill_forget();
    kl_free(filled(8 * MIB));
    mapping_cache_clear();
    CHECK(fill_is_expected(8 * MIB));
}

// Blocks that are expected to be filled get huge pages.
static void test_filled_blocks_get_huge_pages(void) {
    learn_filling();
    long before = faults();
    char* block = filled(8 * MIB); // the range is that of 4 to 16 MiB
    CHECK(faults() - before < 64); // 8 MiB have 2,048 small pages
    kl_free(block);
    mapping_cache_clear();
}

// They have the alignment that was asked for, also where it is less than a slice.
static void test_filled_blocks_are_aligned(void) {
    enum { BLOCKS = 24 };
    void* blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t alignment = (size_t)8192 << i % 4; // up to a slice
        blocks[i] = kl_aligned_alloc(alignment, 3 * MIB);
        CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % alignment == 0);
        memset(blocks[i], 1, 3 * MIB);
    }
    CHECK(fill_is_expected(3 * MIB));
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    mapping_cache_clear();
    // Cached mappings need not begin at a multiple of more than a system page.
    bool zero;
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = jumbo_allocate(5 * MIB + i * 4096, 1, false, &zero);
    for (unsigned i = 0; i < BLOCKS; i += 2) jumbo_release(page_of(blocks[i]));
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        void* volatile block = kl_aligned_alloc(SLICE_BYTES, 3 * MIB); // compilers trust it
        CHECK(block != NULL && (uintptr_t)block % SLICE_BYTES == 0);
        blocks[i] = block;
    }
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    mapping_cache_clear();
}

// A block that is filled and doubles will be filled again, whatever other blocks do.
static void test_doubling_takes_huge_pages(void) {
    for (size_t bytes = 4 * MIB; bytes <= 16 * MIB; bytes *= 2) {
        mapping_cache_clear();
        fill_forget();
        char* block = filled(bytes);
        long before = faults();
        block = kl_realloc(block, 2 * bytes);
        CHECK(block != NULL && block[bytes - 1] == 1);
        memset(block + bytes, 1, bytes);
        // The first and the last huge page may be covered in part only.
        CHECK(faults() - before < 600);
        kl_free(block);
    }
    mapping_cache_clear();
    fill_forget();
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
    learn_filling();
    fill_forget();
    char* first = filled(12 * MIB); // by small pages
    kl_free(first);                 // and such blocks are expected to be filled from now on
    long before = faults();
    char* block = filled(13 * MIB);
    CHECK(faults() - before < 100);
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
    char* middle = jumbo_allocate(1472 * kib, 1, false, &zero);
    char* behind = jumbo_allocate(1600 * kib, 1, false, &zero);
    char* block = jumbo_allocate(1600 * kib, 1, false, &zero);
    char* last = jumbo_allocate(1600 * kib, 1, false, &zero); // nothing free is beside the block
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

// Where the control group has no room for it, a freed mapping does not stay.
static void test_full_group_keeps_no_mapping(void) {
    char* first = filled(8 * MIB);
    char* second = filled(8 * MIB);
    kl_free(first);
    size_t cached = mapping_cache_bytes();
    CHECK(cached >= 8 * MIB);
    policy_set_cap(policy_held() - 8 * MIB / SLICE_BYTES);
    kl_free(second);
    CHECK(mapping_cache_bytes() <= cached);
    policy_set_cap(SIZE_MAX);
    mapping_cache_clear();
}

// A block that will be filled takes warm slices, then a part of a cached mapping, and only then
// more memory. Another one takes a cached mapping.
static void test_warm_then_cached(void) {
    kl_free(kl_malloc(1)); // now there is a window with units
    policy_set_huge(true);
    reserve_discard_all();
    kl_free(filled(4 * MIB));
    size_t cached = mapping_cache_bytes();
    CHECK(cached >= 4 * MIB);
    CHECK(reserve_populate_huge() == HUGE_SLICES);
    size_t dirty = run_dirty_slices();
    policy_set_preferred(true);
    char* first = kl_malloc(2 * MIB);
    CHECK(mapping_cache_bytes() >= cached && run_dirty_slices() + HUGE_SLICES <= dirty);
    dirty = run_dirty_slices();
    uint64_t units = event_total(EVENT_UNITS);
    char* second = kl_malloc(2 * MIB);
    CHECK(mapping_cache_bytes() <= cached - 2 * MIB && run_dirty_slices() == dirty);
    policy_set_preferred(false);
    char* third = kl_malloc(MIB);
    CHECK(mapping_cache_bytes() <= cached - 3 * MIB && run_dirty_slices() == dirty);
    CHECK(event_total(EVENT_UNITS) == units);
    kl_free(first);
    kl_free(second);
    kl_free(third);
    mapping_cache_clear();
    // Nothing is cached. One block in FILL_DRAWS is a probe, which gets cold memory.
    policy_set_preferred(true);
    size_t warm = run_dirty_slices();
    char* block = kl_malloc(2 * MIB);
    char* after_probe = run_dirty_slices() < warm ? NULL : kl_malloc(2 * MIB);
    CHECK(run_dirty_slices() + HUGE_SLICES <= warm);
    policy_set_preferred(false);
    kl_free(block);
    kl_free(after_probe);
    mapping_cache_clear();
    reserve_discard_all();
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_RESET_DELAY, 600000); // nothing gets too old
    test_shrunk_is_warm();
    test_smallest_fits();
    test_full_group_keeps_no_mapping();
    test_slightly_shrunk_stays();
    policy_set_huge(true);
    test_filled_blocks_get_huge_pages();
    test_filled_blocks_are_aligned();
    test_doubling_takes_huge_pages();
    test_mapping_grows_by_huge_pages();
    test_warm_then_cached();
    check_work_bounds();
    return 0;
}

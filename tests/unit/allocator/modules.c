// The modules one by one, in one thread: tables, bit tricks, runs, pages, purge, large blocks.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/remote_queue.h"
#include "allocator/large/large.h"
#include "allocator/page/page.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/format.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include <string.h>

static void test_bits(void) {
    CHECK(bit_runs(UINT64_C(0xF0), 4) == UINT64_C(0x10));
    CHECK(bit_runs(UINT64_C(0xF0), 5) == 0);
    CHECK(bit_runs(~UINT64_C(0), 64) == 1);
    CHECK(bit_longest_log2(1) == 0 && bit_longest_log2(0x70) == 1 &&
          bit_longest_log2(~UINT64_C(0)) == 6);
    CHECK(bit_multiples(1) == ~UINT64_C(0) && bit_multiples(2) == ~UINT64_C(0) / 3);
    CHECK(bit_multiples(32) == UINT64_C(0x100000001) && bit_multiples(64) == 1);
    CHECK(bit_range(0, 64) == ~UINT64_C(0) && bit_range(63, 1) == UINT64_C(1) << 63);
}

// Every length of one run, at its first and last place in the word, against every wanted length.
static void test_bit_runs(void) {
    for (unsigned length = 1; length <= 64; length++) {
        for (unsigned count = 1; count <= 64; count++) {
            uint64_t starts = count > length ? 0 : bit_range(0, length - count + 1);
            CHECK(bit_runs(bit_range(0, length), count) == starts);
            CHECK(bit_runs(bit_range(64 - length, length), count) == starts << (64 - length));
        }
    }
}

static void test_page_slices(void) {
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        bool wide = size_class_bytes[c] > 8192;
        CHECK(page_slices(c, 2) == (wide ? 4 : 1) && page_slices(c, 3) == page_slices(c, 2));
        if (KEEL_SECURE && wide) continue; // always 4
        unsigned first = page_slices(c, 0);
        CHECK(page_slices(c, 1) == (wide ? 2 * first : 1));
        CHECK(first <= (wide ? 2 : 1) && first * SLICE_BYTES >= 2 * (size_t)size_class_bytes[c]);
    }
}

static void test_text(void) {
    char buffer[8];
    struct text text;
    text_begin(&text, buffer, sizeof buffer);
    text_bytes(&text, 1536);
    CHECK(strcmp(buffer, "1.5 KiB") == 0 && text.length == 7);
    text_begin(&text, buffer, sizeof buffer);
    text_decimal(&text, UINT64_MAX);
    CHECK(strcmp(buffer, "1844674") == 0 && text.length == 20);
}

static void test_runs(void) {
    struct run a = run_allocate(1);
    struct run b = run_allocate(64);
    struct run c = run_allocate(200);
    struct run d = run_allocate_aligned(3, 8, RUN_WARM);
    CHECK(a.start != NULL && b.start != NULL && c.start != NULL && d.start != NULL);
    CHECK(c.zero && ((uintptr_t)d.start & (8 * SLICE_BYTES - 1)) == 0);
    memset(c.start, 1, 200 * SLICE_BYTES);
    CHECK(run_check());
    CHECK(run_extend(d.start, 3, 5));
    run_release(c.start, 200);
    run_release(b.start, 64);
    run_release(d.start, 5);
    run_release(a.start, 1);
    CHECK(run_check());
    reserve_discard_all();
    CHECK(run_check() && run_dirty_slices() == 0);
    c = run_allocate(200);
    CHECK(c.zero);
    for (size_t i = 0; i < 200 * SLICE_BYTES; i += 4096) CHECK(c.start[i] == 0);
    run_release(c.start, 200);
}

// Each has twice its slices to extend into, beyond its superblock too, and what it does not take
// stays free.
static void test_runs_that_grow(void) {
    const unsigned sizes[] = {1, 3, 20, 32, 33, 64, 70, 200};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned slices = sizes[i];
        size_t live = run_live_slices();
        struct run run = run_allocate_growing(slices);
        CHECK(run.start != NULL && run_live_slices() == live + slices);
        CHECK(run_extend(run.start, slices, 2 * slices));
        CHECK(run_live_slices() == live + (size_t)2 * slices && run_check());
        memset(run.start, 1, 2 * slices * SLICE_BYTES);
        struct run behind = run_allocate(1);
        CHECK(behind.start < run.start || behind.start >= run.start + 2 * slices * SLICE_BYTES);
        run_release(behind.start, 1);
        run_release(run.start, 2 * slices);
        CHECK(run_live_slices() == live && run_check());
    }
}

// Nothing is taken when only a part of what lies behind is free, on whichever side of a
// superblock's end.
static void test_runs_that_cannot_grow(void) {
    struct run wide = run_allocate(64 + 64 + 8);
    CHECK(wide.start != NULL);
    run_release(wide.start + 60 * SLICE_BYTES, 10); // 4 slices below the end, 6 above
    reserve_discard_all();
    size_t live = run_live_slices();
    CHECK(!run_extend(wide.start, 60, 71));
    CHECK(run_live_slices() == live && run_dirty_slices() == 0 && run_check());
    CHECK(run_extend(wide.start, 60, 70));
    CHECK(run_live_slices() == live + 10 && run_check());
    run_release(wide.start, 64 + 64 + 8);
    CHECK(run_check());
}

static void test_alignment(void) {
    for (size_t alignment = 1; alignment <= (size_t)1 << 28; alignment *= 2) {
        for (size_t size = 0; size < 300000; size = size * 3 / 2 + 1) {
            char* block = kl_aligned_alloc(alignment, size);
            CHECK(block != NULL && ((uintptr_t)block & (alignment - 1)) == 0);
            CHECK(kl_usable_size(block) >= size);
            memset(block, 0xA5, size);
            kl_free(block);
        }
    }
}

static void test_sizes(void) {
    for (size_t size = 0; size < (size_t)40 << 20; size = size + size / 7 + 1) {
        char* block = kl_malloc(size);
        CHECK(block != NULL && ((uintptr_t)block & (size > 8 ? 15 : 7)) == 0);
        CHECK(kl_usable_size(block) >= size && kl_good_size(size) >= size);
        memset(block, 1, size);
        block = kl_realloc(block, size * 2 + 1);
        CHECK(block != NULL);
        for (size_t i = 0; i < size; i += 97) CHECK(block[i] == 1);
        char* zero = kl_calloc(1, size);
        CHECK(zero != NULL);
        for (size_t i = 0; i < size; i += i < 5000 ? 1 : 89) CHECK(zero[i] == 0);
        kl_free(block);
        memset(zero, 1, size);
        kl_free(zero);
    }
}

static void test_refusals(void) {
    volatile size_t huge = SIZE_MAX / 2 + 2;
    CHECK(kl_malloc(huge) == NULL);
    CHECK(kl_calloc(huge, 4) == NULL);
    volatile size_t odd = 48;
    CHECK(kl_aligned_alloc(odd, 8) == NULL);
    void* block = kl_malloc(100);
    CHECK(kl_realloc(block, huge) == NULL);
    CHECK(kl_realloc(block, 0) == NULL);
    int local = 0;
    kl_free(&local); // foreign: ignored
    CHECK(kl_usable_size(&local) == 0 && !kl_contains(&local) && !kl_contains(NULL));
}

// After a burst everything is given back on request, and the heap's own state holds.
static void test_collect(void) {
    enum { COUNT = 100000 };
    void** blocks = malloc(COUNT * sizeof *blocks);
    for (unsigned i = 0; i < COUNT; i++) CHECK((blocks[i] = kl_malloc(i % 700)) != NULL);
    CHECK(heap_check(thread_heap));
    for (unsigned i = 0; i < COUNT; i += 2) kl_free(blocks[i]);
    CHECK(heap_check(thread_heap));
    for (unsigned i = 1; i < COUNT; i += 2) kl_free(blocks[i]);
    CHECK(heap_check(thread_heap));
    kl_collect(true);
    CHECK(heap_check(thread_heap) && run_check());
    CHECK(run_live_slices() == 0 && run_dirty_slices() == 0);
    free(blocks);
}

// An aligned run takes its own slices only, also where no more are free around it.
static void test_aligned_runs(void) {
    reserve_discard_all();
    struct run whole = run_allocate_aligned(SUPERBLOCK_SLICES, SUPERBLOCK_SLICES, RUN_WARM);
    CHECK(whole.start != NULL && (uintptr_t)whole.start % SUPERBLOCK_BYTES == 0);
    for (unsigned alignment = 2; alignment <= SUPERBLOCK_SLICES / 2; alignment *= 2) {
        char* place = whole.start + (SUPERBLOCK_SLICES - alignment) * SLICE_BYTES;
        size_t live = run_live_slices();
        memset(place, 1, alignment * SLICE_BYTES);
        run_release(place, alignment);
        unsigned slices = alignment - alignment / 4;
        struct run run = run_allocate_aligned(slices, alignment, RUN_WARM);
        CHECK(run.start == place && run.warm); // no other slices are warm
        CHECK(slices == alignment || run_extend(place, slices, alignment));
        CHECK(run_live_slices() == live && run_check());
    }
    run_release(whole.start, SUPERBLOCK_SLICES);
    CHECK(run_check());
}

// A large block that shrinks by one slice releases it. One that shrinks to a small size leaves its
// slices.
static void test_shrinking(void) {
    char* block = kl_malloc(8 * SLICE_BYTES);
    size_t live = run_live_slices();
    CHECK(kl_realloc(block, 7 * SLICE_BYTES) == block);
    CHECK(run_live_slices() == live - 1 && run_check());
    kl_free(block);
    block = kl_realloc(kl_malloc(200000), 60000);
    CHECK(block != NULL && kl_usable_size(block) < SLICE_BYTES);
    kl_free(block);
}

// A page of which all blocks are carved and used has no free one.
static void test_full_page(void) {
    char* blocks[64];
    unsigned count = 1;
    blocks[0] = kl_malloc(8192);
    const struct page* page = page_of(blocks[0]);
    CHECK(page_has_free(page)); // one system page is carved at a time
    do blocks[count] = kl_malloc(8192);
    while (page_of(blocks[count++]) == page && count < 64);
    CHECK(count < 64 && page_use(page)->carved == page->capacity && !page_has_free(page));
    while (count > 0) kl_free(blocks[--count]);
}

// Pages with kept blocks are taken in each order.
static void test_kept_lists(void) {
    enum { KEPT = 4, KEPT_BLOCKS = 2, ORDERS = 24 };
    struct remote_queue queue = {0};
    struct block* blocks[KEPT][KEPT_BLOCKS];
    struct page* pages[KEPT];
    for (unsigned i = 0; i < KEPT; i++) {
        for (unsigned j = 0; j < KEPT_BLOCKS; j++) blocks[i][j] = kl_malloc(20000 + 4000 * i);
        pages[i] = page_of_block(blocks[i][0]);
        CHECK(page_of_block(blocks[i][1]) == pages[i] && (i == 0 || pages[i] != pages[i - 1]));
    }
    CHECK(remote_queue_enter(&queue)); // this thread is the consumer
    for (unsigned order = 0; order < ORDERS; order++) {
        unsigned left[KEPT] = {0, 1, 2, 3};
        unsigned choices = order;
        for (unsigned i = 0; i < KEPT * KEPT_BLOCKS; i++)
            remote_queue_keep(&queue, pages[i % KEPT], list_of_one(blocks[i % KEPT][i / KEPT]));
        for (unsigned count = KEPT; count > 0; choices /= count--) {
            unsigned at = choices % count;
            const struct page* page = (const struct page*)atomic_get(&queue.kept_first);
            CHECK(atomic_get(&queue.kept_count) == count);
            for (unsigned i = 0; i < count; i++, page = page_remote(page)->kept_next)
                CHECK(page == pages[left[i]]);
            CHECK(page == NULL);
            struct block_list list = remote_queue_take_kept(&queue, pages[left[at]]);
            CHECK(list_count(list.word) == KEPT_BLOCKS && list.tail == blocks[left[at]][0]);
            CHECK(list_head(list.word) == blocks[left[at]][1]);
            memmove(&left[at], &left[at + 1], (count - at - 1) * sizeof left[0]);
        }
        CHECK(remote_queue_is_empty(&queue));
    }
    for (unsigned i = 0; i < KEPT * KEPT_BLOCKS; i++) kl_free(blocks[i % KEPT][i / KEPT]);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER); // run_check wants a world at rest
    CHECK(size_class_check());
    test_bits();
    test_bit_runs();
    test_page_slices();
    test_text();
    test_runs();
    test_aligned_runs();
    test_runs_that_grow();
    test_runs_that_cannot_grow();
    test_sizes();
    test_alignment();
    test_refusals();
    test_collect();
    test_shrinking();
    test_full_page();
    test_kept_lists();
    check_work_bounds();
    return 0;
}

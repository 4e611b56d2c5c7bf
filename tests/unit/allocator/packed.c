// Packed blocks (space/packed.h): they do not overlap, leave nothing unused between them, and the
// place of a freed block is found again.
#include "allocator/space/packed.h"
#include "allocator/space/run.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct packed {
    char* start;
    size_t bytes;
};

static struct packed packed_of(size_t bytes) {
    struct run run = packed_allocate(bytes);
    CHECK(run.start != NULL && (uintptr_t)run.start % PACKED_UNIT == 0);
    return (struct packed){run.start, bytes};
}

static void end(struct packed* block) {
    packed_release(block->start, block->bytes);
    block->start = NULL;
}

// One block begins where the one before it ends, over the ends of superblocks too.
static void test_blocks_are_adjacent(void) {
    enum { BLOCKS = 600 };
    static struct packed blocks[BLOCKS];
    size_t before = run_live_slices();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = packed_of(70016);
        if (i > 0) CHECK(blocks[i].start == blocks[i - 1].start + 70016);
    }
    size_t slices = run_live_slices() - before;
    CHECK(slices == (BLOCKS * (size_t)70016 + SLICE_BYTES - 1) / SLICE_BYTES);
    CHECK(run_check());
    for (unsigned i = 0; i < BLOCKS; i++) end(&blocks[i]);
    CHECK(run_live_slices() == before && run_check());
}

// A block of the same size fits where another one was, whichever of its neighbours are there.
static void test_place_is_found_again(void) {
    enum { BLOCKS = 64 };
    static struct packed blocks[BLOCKS];
    static char* starts[BLOCKS];
    for (size_t bytes = 66 * KIB; bytes < MIB; bytes += 61 * KIB) {
        for (unsigned i = 0; i < BLOCKS; i++) starts[i] = (blocks[i] = packed_of(bytes)).start;
        size_t full = run_live_slices();
        for (unsigned step = 2; step < 6; step++) {
            for (unsigned i = 1; i < BLOCKS; i += step) end(&blocks[i]);
            CHECK(run_check());
            for (unsigned i = 1; i < BLOCKS; i += step) {
                blocks[i] = packed_of(bytes);
                CHECK(blocks[i].start >= starts[0] && blocks[i].start <= starts[BLOCKS - 1]);
            }
            CHECK(run_live_slices() == full && run_check());
        }
        for (unsigned i = 0; i < BLOCKS; i++) end(&blocks[i]);
    }
}

// A block that is freed before a slice's other user, and after it, and one that ends before a
// block's start with whole slices between.
static void test_room_before_a_block(void) {
    size_t before = run_live_slices();
    char* whole = run_allocate(8).start;
    run_release(whole, 8);
    struct packed first = packed_of(80 * KIB);
    struct packed second = packed_of(80 * KIB);
    CHECK(second.start == first.start + 80 * KIB);
    end(&first); // 80 KiB are free before `second`: one slice, and 16 KiB of the next
    CHECK(run_live_slices() == before + 2 && run_check());
    struct packed third = packed_of(72 * KIB);
    CHECK(third.start + 72 * KIB == second.start); // not behind it
    CHECK(run_live_slices() == before + 3 && run_check());
    end(&second);
    CHECK(run_live_slices() == before + 2 && run_check());
    end(&third);
    CHECK(run_live_slices() == before && run_check());
}

// Fresh room is zero; room that a block has left is not known to be.
static void test_zero_is_known(void) {
    kl_collect(true);
    struct run first = packed_allocate(100 * KIB);
    struct run second = packed_allocate(100 * KIB);
    CHECK(first.zero && second.zero && second.start == first.start + 100 * KIB);
    for (size_t i = 0; i < 100 * KIB; i++) CHECK(second.start[i] == 0);
    memset(second.start, 1, 100 * KIB);
    packed_release(second.start, 100 * KIB);
    kl_collect(true); // the whole slices are zero again, the room behind `first` is not
    second = packed_allocate(100 * KIB);
    CHECK(!second.zero && second.start == first.start + 100 * KIB);
    packed_release(second.start, 100 * KIB);
    packed_release(first.start, 100 * KIB);
    CHECK(run_check());
}

// A superblock without free slices is in no set that the searches for a run look at.
static void test_full_superblocks_are_not_searched(void) {
    enum { BLOCKS = 64 };
    static struct packed blocks[BLOCKS];
    unsigned full = 0;
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = packed_of(MIB + 192);
    for (size_t i = 0; i < BLOCKS * MIB / SUPERBLOCK_BYTES; i++) {
        const char* start = blocks[0].start + i * SUPERBLOCK_BYTES;
        struct window* window = window_find(start);
        unsigned index = (unsigned)((size_t)(start - window->base) / SUPERBLOCK_BYTES);
        if (atomic_get(&window->superblocks[index].free) != 0) continue;
        full++;
        for (unsigned b = 0; b < RUN_BUCKETS; b++)
            CHECK((atomic_get(&window_set(window, SET_RUNS + b)->words[index / 64]) >> index % 64 &
                   1) == 0);
    }
    CHECK(full >= BLOCKS * MIB / SUPERBLOCK_BYTES / 2);
    for (unsigned i = 0; i < BLOCKS; i++) end(&blocks[i]);
    CHECK(run_check());
}

// Random sizes and lifetimes. Each block has its own content from its first to its last byte.
static void test_blocks_do_not_overlap(void) {
    enum { BLOCKS = 300, STEPS = 20000 };
    static struct packed blocks[BLOCKS];
    uint64_t random = 14;
    size_t before = run_live_slices();
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)(random_next(&random) % BLOCKS);
        struct packed* block = &blocks[i];
        if (block->start != NULL) {
            CHECK(block->start[0] == (char)i && block->start[block->bytes - 1] == (char)i);
            for (size_t at = 0; at < block->bytes; at += 16 * KIB)
                CHECK(block->start[at] == (char)i);
            end(block);
        } else {
            size_t most = step % 50 == 0 ? 4 * MIB - SLICE_BYTES : 300 * KIB;
            size_t units = random_next(&random) % ((most - SLICE_BYTES) / PACKED_UNIT) + 1;
            *block = packed_of(SLICE_BYTES + units * PACKED_UNIT);
            for (size_t at = 0; at < block->bytes; at += 16 * KIB) block->start[at] = (char)i;
            block->start[block->bytes - 1] = (char)i;
        }
        if (step % 500 == 0) CHECK(run_check());
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start != NULL) end(&blocks[i]);
    CHECK(run_live_slices() == before && run_check());
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    void* block = kl_malloc(1); // the process has started
    test_blocks_are_adjacent();
    test_place_is_found_again();
    test_room_before_a_block();
    test_zero_is_known();
    test_full_superblocks_are_not_searched();
    test_blocks_do_not_overlap();
    kl_free(block);
    CHECK(run_check());
    check_work_bounds();
    return 0;
}

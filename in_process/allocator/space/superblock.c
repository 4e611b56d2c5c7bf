#include "allocator/space/superblock.h"
#include "base/bits.h"
#include "base/panic.h"

struct slice_counts slice_counts;

size_t run_live_slices(void) {
    int64_t held = atomic_get(&slice_counts.held);
    int64_t count = (held - (int32_t)held) / (INT64_C(1) << 32);
    return count < 0 ? 0 : (size_t)count;
}

size_t run_dirty_slices(void) {
    int32_t count = (int32_t)atomic_get(&slice_counts.held);
    return count < 0 ? 0 : (size_t)count;
}

// A superblock with this free word belongs to the buckets 0 .. buckets_of - 1.
static unsigned buckets_of(uint64_t free) {
    return free == 0 ? 0 : bit_longest_log2(free) + 1;
}

void superblock_file(struct window* window, unsigned index, uint64_t before, uint64_t now) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && (before & ~now) == 0);
    unsigned end = buckets_of(now);
    for (unsigned bucket = buckets_of(before); bucket < end; bucket++) {
        window_set_add(window, SET_RUNS + bucket, index);
    }
}

void superblock_unfile(struct window* window, unsigned index, unsigned bucket) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && bucket < RUN_BUCKETS);
    window_set_remove(window, SET_RUNS + bucket, index);
    superblock_file(window, index, 0, atomic_get_ordered(&window->superblocks[index].free));
}

void superblock_unfile_taken(struct window* window, unsigned index) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS);
    if (atomic_get(&window->superblocks[index].free) != 0) return;
    for (unsigned bucket = 0; bucket < RUN_BUCKETS; bucket++)
        superblock_unfile(window, index, bucket);
}

void superblock_correct_dirty(struct window* window, unsigned index) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS);
    if (superblock_is_dirty(&window->superblocks[index])) return;
    window_set_remove(window, SET_DIRTY, index);
    if (superblock_is_dirty(&window->superblocks[index])) window_set_add(window, SET_DIRTY, index);
}

void slices_give(struct window* window, unsigned index, uint64_t mask) {
    KEEL_ASSERT(mask != 0 && (atomic_get(&window->superblocks[index].open) & mask) == mask);
    KEEL_ASSERT((atomic_get(&window->superblocks[index].touched) & mask) == mask);
    KEEL_ASSERT((atomic_get(&window->superblocks[index].zero) & mask) == 0);
    slices_count(-(int64_t)bit_count(mask), (int64_t)bit_count(mask));
    uint64_t before = atomic_or_ordered(&window->superblocks[index].free, mask);
    KEEL_ASSERT((before & mask) == 0);
    window_set_add(window, SET_DIRTY, index);
    superblock_file(window, index, before, before | mask);
}

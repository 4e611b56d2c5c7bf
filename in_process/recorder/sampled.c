// The generator is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). The logarithm is computed bit by
// bit: the square of a number has twice its logarithm. A sample is rare, so this need not be fast,
// and the C library's functions are not needed.
#include "sampled.h"

#include "base/bits.h"
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOW = 64, FRACTION_BITS = 24, MANTISSA_BITS = 31 };

// The counters, and behind them the set.
enum {
    PAGES_BYTES = SAMPLED_PAGES * sizeof(atomic_small),
    MEMORY_BYTES = PAGES_BYTES + SAMPLED_SLOTS * sizeof(atomic_bits)
};
static atomic_small* pages;
static atomic_bits* slots;
static atomic_state steps; // that a search makes: 1 + the largest step of a block so far

// In the system page of the variables that are not zero at first, as are the next definitions.
KEEL_ALIGNED(32) __attribute__((section(".data"))) struct sampled_state sampled_state;

bool sampled_begin(void) {
    if (pages == NULL) {
        void* memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        pages = memory;
        slots = (atomic_bits*)((char*)memory + PAGES_BYTES);
    } else {
        // Of an earlier recording, or of the process that forked this one. Other threads may read
        // it. Locked memory refuses this advice.
        if (madvise(pages, MEMORY_BYTES, MADV_DONTNEED) != 0) memset(pages, 0, MEMORY_BYTES);
    }
    atomic_set(&steps, 0);
    atomic_set_release(&sampled_state.pages, pages);
    atomic_set_release(&sampled_state.mask, UINT64_MAX);
    return true;
}

void sampled_end(void) {
    atomic_set_release(&sampled_state.distance, 0);
    atomic_set_release(&sampled_state.mask, 0);
    atomic_set_release(&sampled_state.pages, NULL);
}

static void page_count(const void* block, int by) {
    atomic_small* count = &pages[sampled_page(block)];
    uint8_t seen = atomic_get(count);
    while (seen != UINT8_MAX && !atomic_try_small(count, &seen, (uint8_t)(seen + by))) {
    }
}

static atomic_bits* window_slot(const void* block, uint32_t step) {
    uint64_t hash = ((uint64_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return &slots[((hash >> 44) + step) & (SAMPLED_SLOTS - 1)];
}
_Static_assert(SAMPLED_SLOTS == 1 << (64 - 44), "a slot is the upper bits of a hash");

// Who looks for the block has got it from this thread, and so sees the step.
static void steps_include(uint32_t step) {
    uint32_t seen = atomic_get(&steps);
    while (seen <= step && !atomic_try_ordered(&steps, &seen, step + 1)) {
    }
}

bool sampled_add(const void* block) {
    for (uint32_t step = 0; step < WINDOW; step++) {
        uint64_t expected = 0;
        steps_include(step);
        if (!atomic_try_ordered(window_slot(block, step), &expected, (uint64_t)block)) continue;
        page_count(block, 1);
        return true;
    }
    return false;
}

bool sampled_remove(const void* block) {
    if (pages == NULL || atomic_get(&pages[sampled_page(block)]) == 0) return false;
    for (uint32_t step = 0; step < atomic_get(&steps); step++) {
        uint64_t expected = (uint64_t)block;
        atomic_bits* slot = window_slot(block, step);
        if (atomic_get(slot) != expected || !atomic_try_ordered(slot, &expected, 0)) continue;
        page_count(block, -1);
        return true;
    }
    return false;
}

static uint64_t random_next(uint64_t* state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t sampled_distance(uint64_t* random, uint64_t mean) {
    const uint64_t ln2 = 2977044472; // of 2^32
    uint64_t uniform = random_next(random) | 1;
    unsigned zeros = 63 - bit_highest(uniform);
    // uniform / 2^64 = mantissa / 2^(zeros + 1), with the mantissa in [1, 2)
    uint64_t mantissa = uniform << zeros >> (63 - MANTISSA_BITS);
    uint64_t fraction = 0; // of the mantissa's logarithm to the base 2
    for (int bit = 0; bit < FRACTION_BITS; bit++) {
        mantissa = mantissa * mantissa >> MANTISSA_BITS;
        uint64_t is_two = mantissa >> (MANTISSA_BITS + 1);
        fraction = fraction << 1 | is_two;
        mantissa >>= is_two;
    }
    uint64_t halvings = ((uint64_t)(zeros + 1) << FRACTION_BITS) - fraction;
    return ((halvings * ln2 >> 32) * mean) >> FRACTION_BITS;
}

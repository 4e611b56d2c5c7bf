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
    PAGES_BYTES = sizeof(struct sampled_pages) + SAMPLED_PAGES * sizeof(atomic_state),
    MEMORY_BYTES = PAGES_BYTES + SAMPLED_SLOTS * sizeof(atomic_bits)
};
static struct sampled_pages* pages;
static atomic_bits* slots;

// The one counter without sampling.
static union {
    struct sampled_pages pages;
    uint64_t words[2];
} everything = {.words = {0, UINT64_MAX}};
_Static_assert(offsetof(struct sampled_pages, counts) == 8, "the counter is in the second word");

struct sampled_state sampled_state = {.pages = &everything.pages};

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
    pages->mask = SAMPLED_PAGES - 1;
    atomic_set_release(&sampled_state.pages, pages);
    atomic_set_release(&sampled_state.mask, UINT64_MAX);
    return true;
}

void sampled_end(void) {
    atomic_set_release(&sampled_state.flat, 0);
    atomic_set_release(&sampled_state.mask, 0);
    atomic_set_release(&sampled_state.pages, &everything.pages);
}

static atomic_state* page_count(const void* block) {
    return &pages->counts[((uint64_t)block >> SAMPLED_PAGE_SHIFT) & (SAMPLED_PAGES - 1)];
}

static atomic_bits* window_slot(const void* block, size_t step) {
    uint64_t hash = ((uint64_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return &slots[((hash >> 44) + step) & (SAMPLED_SLOTS - 1)];
}
_Static_assert(SAMPLED_SLOTS == 1 << (64 - 44), "a slot is the upper bits of a hash");

bool sampled_add(const void* block) {
    for (size_t step = 0; step < WINDOW; step++) {
        uint64_t expected = 0;
        if (!atomic_try_ordered(window_slot(block, step), &expected, (uint64_t)block)) continue;
        atomic_add_ordered(page_count(block), 1);
        return true;
    }
    return false;
}

bool sampled_remove(const void* block) {
    if (pages == NULL || atomic_get(page_count(block)) == 0) return false;
    for (size_t step = 0; step < WINDOW; step++) {
        uint64_t expected = (uint64_t)block;
        atomic_bits* slot = window_slot(block, step);
        if (atomic_get(slot) != expected || !atomic_try_ordered(slot, &expected, 0)) continue;
        atomic_sub_ordered(page_count(block), 1);
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

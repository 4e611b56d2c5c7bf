#include "allocator/guarded/sample.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/bin.h"
#include "base/bits.h"
#include "base/options.h"
#include "base/panic.h"
#include "base/random.h"
#include "os/process.h"
#include "os/stack.h"

#define RATE_MAX (1 << 24)
#define LOG_BITS 16u               // of the fraction of a logarithm
#define LN2_OF_LOG UINT64_C(45426) // 2^16 * ln 2
#define BEGIN_SHARE 4u // one block in this many is behind its guard instead of before it

atomic_word sample_rate;
static atomic_bits seed;

void sample_start(void) {
    int64_t rate = option_get(OPTION_GUARD_RATE);
    if (KEEL_SECURE || KEEL_DEBUG || rate <= 0) return;
    int64_t chosen = option_get(OPTION_GUARD_SEED);
    atomic_set(&seed, chosen != 0 ? (uint64_t)chosen : os_random());
    atomic_set(&sample_rate, rate < RATE_MAX ? (uintptr_t)rate : RATE_MAX);
}

void sample_loaded(void) {
    if (!sample_is_on()) return;
    os_stack_prepare();
    if (option_get(OPTION_GUARD_HANDLER) != 0) (void)os_fault_watch(guarded_examine);
}

// 2^16 * log2(2^64 / bits), by repeated squaring; bits is not 0.
static uint64_t log_of_inverse(uint64_t bits) {
    KEEL_ASSERT(bits != 0);
    unsigned high = bit_highest(bits);
    uint64_t mantissa = bits << (63 - high) >> 32; // 1.31 bits, from 1 to 2
    uint64_t log = high;
    for (unsigned i = 0; i < LOG_BITS; i++) {
        mantissa = mantissa * mantissa >> 31;
        log <<= 1;
        if (mantissa >> 32 != 0) {
            log |= 1;
            mantissa >>= 1;
        }
    }
    return (UINT64_C(64) << LOG_BITS) - log;
}

// Geometrically distributed: 1 + floor(ln u / ln (1 - 1 / rate)), u from 0 to 1. The divisor is
// about -1 / (rate - 1/2).
static uint32_t draw(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&sample_rate) > 0);
    uint64_t rate = atomic_get(&sample_rate);
    if (heap->guard_random == 0)
        heap->guard_random = atomic_add(&seed, UINT64_C(0x2545f4914f6cdd1d)) | 1;
    uint64_t log = log_of_inverse(random_next(&heap->guard_random) | 1);
    return rate == 1 ? 1 : 1 + (uint32_t)(log * LN2_OF_LOG * (2 * rate - 1) >> (2 * LOG_BITS + 1));
}

// Takes the whole list, and moves the choice to one of the first allocations from the next list.
static bool is_moved(struct heap* heap, uint32_t* left, uint32_t served, uint32_t count) {
    if (served <= SAMPLE_WALK_MAX || count > atomic_get(&sample_rate)) return false;
    *left = 1 + (uint32_t)(random_next(&heap->guard_random) % SAMPLE_WALK_MAX);
    return true;
}

void sample_cut(struct heap* heap, struct page* page, struct block** rest, uint32_t count) {
    KEEL_ASSERT(!KEEL_SECURE && count > 0 && (*rest != NULL) == (count > 1));
    uint32_t* left = &heap->guard_left[page->size_class];
    if (*left <= 1) return; // not drawn yet, or the last one found no place
    uint32_t served = *left - 1;
    if (served >= count) {
        *left -= count;
        return;
    }
    if (is_moved(heap, left, served, count)) return;
    if (served > SAMPLE_WALK_MAX) served = SAMPLE_WALK_MAX;
    *left -= served;
    struct block** end = rest;
    for (uint32_t i = 1; i < served; i++) end = &(*end)->next;
    page_use(page)->local_free = *end;
    *end = NULL;
    page_use(page)->used -= count - served;
}

// An address inside a guarded block may be in another slice than the block's metadata.
static bool is_possible(const struct heap* heap) {
    return heap_is_real(heap) && heap->arena == NULL && !heap->no_guards;
}

bool sample_is_due(struct heap* heap, unsigned size_class) {
    if (!is_possible(heap)) return false;
    uint32_t* left = &heap->guard_left[size_class];
    if (*left == 0) *left = draw(heap);
    return *left == 1 && bin_first(heap, size_class) == NULL;
}

bool sample_large(struct heap* heap) {
    if (!is_possible(heap)) return false;
    uint32_t* left = &heap->guard_left[SAMPLE_LARGE];
    if (*left == 0) *left = draw(heap);
    if (*left == 1) return true;
    --*left;
    return false;
}

struct page* sample_take(struct heap* heap, unsigned size_class, size_t size, size_t alignment) {
    heap->guard_left[size_class] = draw(heap);
    if (!heap_admits(heap, size)) return NULL;
    bool at_begin = random_next(&heap->guard_random) % BEGIN_SHARE == 0;
    struct page* page = guarded_allocate(size, alignment, at_begin, heap_is_realtime(heap));
    if (page != NULL) page->size_class = (uint16_t)size_class;
    return page;
}

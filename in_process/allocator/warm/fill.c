#include "allocator/warm/fill.h"
#include "allocator/space/window.h"
#include "allocator/warm/policy.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/panic.h"
#include "base/random.h"
#include "os/confined.h"
#include "os/memory.h"

#define PART_ALL 256u

static struct {
    struct {
        atomic_word start; // 0: none
        atomic_word span;
        atomic_state draws; // blocks of the range since it began
    } places[FILL_PLACES];
    atomic_state watched;   // places in use; a hint
    atomic_state judged;    // 1: `part` is known
    atomic_state part;      // of the probes that was filled, in 256ths
    atomic_state draws;     // blocks since the last probe
    atomic_state doublings; // of FILL_DRAWS, by filled probes
} ranges[FILL_RANGES];

static unsigned range_of(size_t bytes) {
    if (bytes <= SLICE_BYTES) return 0;
    unsigned range = 1 + (bit_highest((bytes - 1) / SLICE_BYTES)) / 2;
    KEEL_ASSERT(range > 0 && range < FILL_RANGES);
    return range;
}

// Threads may draw the same numbers.
static size_t random_offset(size_t bytes) {
    KEEL_ASSERT(bytes > 0);
    static atomic_bits state;
    uint64_t drawn = atomic_get(&state);
    size_t offset = (size_t)(random_next(&drawn) % bytes);
    atomic_set(&state, drawn);
    return offset;
}

// With `at_least_all`, an empty place ends the look.
static unsigned filled_samples(const char* start, size_t bytes, bool at_least_all) {
    KEEL_ASSERT(start != NULL && bytes > 0);
    unsigned filled = 0;
    for (unsigned i = 0; i < FILL_SAMPLES; i++) {
        bool resident = os_page_is_resident(start + random_offset(bytes));
        if (!resident && at_least_all) return 0;
        filled += resident;
    }
    return filled;
}

// An empty probe ends the expectation at once; several filled ones restore it.
static void judge(unsigned range, unsigned filled) {
    KEEL_ASSERT(range < FILL_RANGES && filled <= FILL_SAMPLES);
    uint32_t here = PART_ALL * filled / FILL_SAMPLES;
    uint32_t doublings = atomic_get(&ranges[range].doublings);
    if (filled < FILL_SAMPLES)
        doublings = 0;
    else if (doublings < FILL_DOUBLINGS)
        doublings++;
    atomic_set(&ranges[range].doublings, doublings);
    uint32_t before = atomic_get(&ranges[range].part);
    bool first = atomic_get(&ranges[range].judged) == 0;
    atomic_set(&ranges[range].part,
               first ? here : (FILL_WEIGHT * before + here) / (FILL_WEIGHT + 1));
    atomic_set(&ranges[range].judged, 1);
}

// The probe leaves its place. False: another thread was faster.
static bool leave(unsigned range, unsigned i, uintptr_t start) {
    KEEL_ASSERT(range < FILL_RANGES && i < FILL_PLACES);
    if (!atomic_try_word(&ranges[range].places[i].start, &start, 0)) return false;
    (void)atomic_sub(&ranges[range].watched, 1);
    return true;
}

static void look(unsigned range, unsigned i, bool last) {
    KEEL_ASSERT(range < FILL_RANGES && i < FILL_PLACES);
    uintptr_t start = atomic_get_acquire(&ranges[range].places[i].start);
    size_t span = atomic_get(&ranges[range].places[i].span);
    if (start == 0) return;
    unsigned filled = filled_samples((const char*)start, span, !last);
    if (filled < FILL_SAMPLES && !last) return;
    if (leave(range, i, start)) judge(range, filled);
}

bool fill_is_expected(size_t bytes) {
    unsigned range = range_of(bytes);
    if (KEEL_UNLIKELY(!os_can_see_memory())) return bytes <= FILL_ASSUMED_BYTES;
    return atomic_get(&ranges[range].judged) != 0 && atomic_get(&ranges[range].part) >= FILL_ENOUGH;
}

bool fill_expects(size_t bytes) {
    unsigned range = range_of(bytes);
    for (unsigned i = 0; i < FILL_PLACES && atomic_get(&ranges[range].watched) != 0; i++) {
        uint32_t draws = atomic_get(&ranges[range].places[i].draws) + 1;
        atomic_set(&ranges[range].places[i].draws, draws);
        if ((draws & (draws - 1)) == 0) look(range, i, draws >= FILL_DRAWS_LAST);
    }
    return fill_is_expected(bytes);
}

bool fill_is_probe(size_t bytes) {
    unsigned range = range_of(bytes);
    if (!os_can_see_memory()) return false;
    uint32_t between = (uint32_t)FILL_DRAWS << atomic_get(&ranges[range].doublings);
    uint32_t drawn = atomic_get(&ranges[range].draws) + 1;
    atomic_set(&ranges[range].draws, drawn < between ? drawn : 0);
    return drawn >= between;
}

static bool is_watched(unsigned range, const char* start) {
    bool watched = false;
    for (unsigned i = 0; i < FILL_PLACES; i++)
        watched |= atomic_get(&ranges[range].places[i].start) == (uintptr_t)start;
    return watched;
}

// The size is written before the place is given a start: until then no thread reads it. A page that
// becomes full a second time may be watched already.
void fill_watch(char* start, size_t span, size_t bytes) {
    KEEL_ASSERT(start != NULL && span > 0);
    unsigned range = range_of(bytes);
    if (atomic_get(&ranges[range].watched) >= FILL_PLACES || !os_can_see_memory()) return;
    if (is_watched(range, start)) return;
    for (unsigned i = 0; i < FILL_PLACES; i++) {
        uintptr_t expected = 0;
        if (atomic_get(&ranges[range].places[i].start) != 0) continue;
        atomic_set(&ranges[range].places[i].span, span);
        atomic_set(&ranges[range].places[i].draws, 0);
        if (!atomic_try_word(&ranges[range].places[i].start, &expected, (uintptr_t)start)) continue;
        (void)atomic_add(&ranges[range].watched, 1);
        return;
    }
}

void fill_end(const char* start, size_t bytes) {
    unsigned range = range_of(bytes);
    if (atomic_get(&ranges[range].watched) == 0) return;
    for (unsigned i = 0; i < FILL_PLACES; i++) {
        if (atomic_get(&ranges[range].places[i].start) == (uintptr_t)start) look(range, i, true);
    }
}

bool fill_is_seen(const char* start, size_t bytes) {
    return filled_samples(start, bytes, true) == FILL_SAMPLES;
}

void fill_forget(void) {
    for (unsigned range = 0; range < FILL_RANGES; range++) {
        for (unsigned i = 0; i < FILL_PLACES; i++) atomic_set(&ranges[range].places[i].start, 0);
        atomic_set(&ranges[range].watched, 0);
        atomic_set(&ranges[range].judged, 0);
        atomic_set(&ranges[range].draws, 0);
        atomic_set(&ranges[range].doublings, 0);
    }
}

static bool range_check(unsigned range) {
    unsigned used = 0;
    for (unsigned i = 0; i < FILL_PLACES; i++) {
        if (atomic_get(&ranges[range].places[i].start) == 0) continue;
        if (atomic_get(&ranges[range].places[i].span) == 0) return false;
        used++;
    }
    return used == atomic_get(&ranges[range].watched) &&
           atomic_get(&ranges[range].part) <= PART_ALL && atomic_get(&ranges[range].judged) <= 1 &&
           atomic_get(&ranges[range].doublings) <= FILL_DOUBLINGS &&
           atomic_get(&ranges[range].draws) < FILL_DRAWS << FILL_DOUBLINGS;
}

bool fill_check(void) {
    if (!KEEL_CHECKS) return true;
    for (unsigned range = 0; range < FILL_RANGES; range++)
        if (!range_check(range)) return false;
    return true;
}

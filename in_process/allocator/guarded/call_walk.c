#include "allocator/guarded/call_walk.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "os/stack.h"

#define OWN_FRAMES 16u // between os_stack_walk and the program

static KEEL_TLS uint32_t captures;

// The unwinder may allocate, but only a few blocks. More captures than that show that the thread
// has left the unwinder: a signal handler called longjmp.
#define NESTED_MOST 64u
static KEEL_TLS uint32_t walking; // 0: no. Else 1, and 1 for each capture since then

// --- Steps: what the unwinder has found out ------------------------------------------------------

#define STEPS 65536u
#define STEP_TRIES 4u

// Distances in bytes, or one of these.
enum { STEP_UNKNOWN = 0, STEP_LAST = 1, STEP_VARIES = 2 };

static struct step {
    atomic_word address;
    atomic_state bytes;
} steps[STEPS];

static size_t step_index(uintptr_t address) {
    return (size_t)(bit_spread(address) >> 40) % STEPS;
}

static uint32_t step_of(uintptr_t address) {
    for (size_t i = 0; i < STEP_TRIES; i++) {
        struct step* step = &steps[(step_index(address) + i) % STEPS];
        if (atomic_get(&step->address) == address) return atomic_get(&step->bytes);
    }
    return STEP_UNKNOWN;
}

// If the table is full, the address stays unknown.
static struct step* step_slot(uintptr_t address) {
    for (size_t i = 0; i < STEP_TRIES; i++) {
        struct step* step = &steps[(step_index(address) + i) % STEPS];
        uintptr_t seen = 0;
        if (atomic_try_word(&step->address, &seen, address) || seen == address) return step;
    }
    return NULL;
}

static void learn(uintptr_t address, uint32_t bytes) {
    struct step* step = step_slot(address);
    uint32_t seen = STEP_UNKNOWN;
    if (step == NULL || atomic_try_state(&step->bytes, &seen, bytes) || seen == bytes) return;
    atomic_set(&step->bytes, STEP_VARIES);
}

static uint32_t step_between(const struct os_frame* inner, const struct os_frame* outer) {
    bool known = inner->place != 0 && outer->place > inner->place &&
                 outer->place - inner->place < (uintptr_t)1 << 24 &&
                 *(const uintptr_t*)outer->place == outer->address;
    return known ? (uint32_t)(outer->place - inner->place) : STEP_VARIES;
}

// --- Spans: the parts of stacks that the unwinder has been through -------------------------------
//
// All of a span can be read. A thread has more than one stack if it runs coroutines, or signal
// handlers on a stack of their own. A step that is wrong must not lead out of the span, because the
// pages behind a stack may be inaccessible.

#define SPANS 4u
#define SPAN_BELOW ((uintptr_t)4096) // calls that are deeper than those that were unwound

struct span {
    uintptr_t low; // places, both included
    uintptr_t high;
};
static KEEL_TLS struct span spans[SPANS];
static KEEL_TLS unsigned spans_replaced;

// Returns the last place that may be read from this one on, or 0.
static uintptr_t span_end(uintptr_t place) {
    for (unsigned i = 0; i < SPANS; i++) {
        if (place + SPAN_BELOW >= spans[i].low && place <= spans[i].high) return spans[i].high;
    }
    return 0;
}

static void span_add(uintptr_t low, uintptr_t high) {
    for (unsigned i = 0; i < SPANS; i++) {
        struct span* span = &spans[i];
        if (low > span->high || high < span->low) continue;
        if (low < span->low) span->low = low;
        if (high > span->high) span->high = high;
        return;
    }
    spans[spans_replaced++ % SPANS] = (struct span){low, high};
}

// --- Capture -------------------------------------------------------------------------------------

static bool is_own(uintptr_t address) {
    return address - os_own_code.start < os_own_code.bytes;
}

// Adds a frame, unless it is one of Keel's, of which no program needs to know.
static void add_frame(struct walked* walked, uintptr_t address) {
    if (walked->depth > 0 || !is_own(address)) walked->addresses[walked->depth++] = address;
}

// False: a step is not known.
static bool follow_steps(struct walked* walked, uint32_t wanted, uintptr_t place,
                         uintptr_t address) {
    const uintptr_t end = span_end(place);
    for (walked->depth = 0;;) {
        add_frame(walked, address);
        if (walked->depth == wanted) return true;
        uint32_t step = step_of(address);
        if (step == STEP_LAST) return true;
        if (step == STEP_UNKNOWN || step == STEP_VARIES) return false;
        place += step;
        if (place > end) return false;
        address = *(const volatile uintptr_t*)place;
    }
}

// `whole`: the last frame is the outermost of the thread.
static void learn_frames(const struct os_frame* frames, unsigned count, bool whole) {
    uintptr_t low = 0;
    for (unsigned i = 0; i < count; i++) {
        if (low == 0) low = frames[i].place;
        bool last = i + 1 == count;
        uint32_t step = last ? STEP_LAST : step_between(&frames[i], &frames[i + 1]);
        if (!last || whole) learn(frames[i].address, step);
        if (!last && step != STEP_VARIES) continue;
        if (low != 0) span_add(low, frames[i].place);
        low = 0; // the next frame may be on another stack
    }
}

void call_walk_unwind(struct walked* walked, uint32_t wanted, uintptr_t caller) {
    struct os_frame frames[WALK_FRAMES_MAX + OWN_FRAMES + 1];
    walked->depth = 0;
    if (walking > 0 && walking++ <= NESTED_MOST) return;
    walking = 1;
    unsigned most = wanted + OWN_FRAMES + 1;
    unsigned count = os_stack_walk(frames, most);
    walking = 0;
    unsigned first = 0;
    while (first < count && frames[first].address != caller) first++;
    for (unsigned i = first; i < count && walked->depth < wanted; i++)
        add_frame(walked, frames[i].address);
    learn_frames(&frames[first], count - first, count < most);
}

#define UNWIND_EVERY 256u // captures of a thread

void call_walk(struct walked* walked, uint32_t wanted, uintptr_t caller, uintptr_t place) {
    if (++captures % UNWIND_EVERY == 0 || !follow_steps(walked, wanted, place, caller))
        call_walk_unwind(walked, wanted, caller);
}

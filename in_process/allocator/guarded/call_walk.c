#include "allocator/guarded/call_walk.h"
#include "base/atomic.h"
#include "os/stack.h"

#define OWN_FRAMES 8u // between os_stack_walk and the function that captures

static KEEL_TLS bool walking;         // the unwinder may allocate
static KEEL_TLS uintptr_t stack_high; // the highest place on this thread's stack seen so far
static KEEL_TLS uint32_t captures;

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
    return (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % STEPS;
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

// --- Capture -------------------------------------------------------------------------------------

// False: a step is not known.
static bool follow_steps(struct walked* walked, uint32_t wanted, uintptr_t place,
                         uintptr_t address) {
    for (walked->depth = 0;;) {
        walked->addresses[walked->depth++] = address;
        if (walked->depth == wanted) return true;
        uint32_t step = step_of(address);
        if (step == STEP_LAST) return true;
        if (step == STEP_UNKNOWN || step == STEP_VARIES) return false;
        place += step;
        if (place > stack_high) return false;
        address = *(const volatile uintptr_t*)place;
    }
}

void call_walk_unwind(struct walked* walked, uint32_t wanted, uintptr_t caller) {
    struct os_frame frames[WALK_FRAMES_MAX + OWN_FRAMES + 1];
    walked->depth = 0;
    if (walking) return;
    walking = true;
    unsigned most = wanted + OWN_FRAMES + 1;
    unsigned count = os_stack_walk(frames, most);
    walking = false;
    unsigned first = 0;
    while (first < count && frames[first].address != caller) first++;
    for (unsigned i = first; i < count; i++) {
        if (walked->depth < wanted) walked->addresses[walked->depth++] = frames[i].address;
        if (frames[i].place > stack_high) stack_high = frames[i].place;
        if (i + 1 < count)
            learn(frames[i].address, step_between(&frames[i], &frames[i + 1]));
        else if (count < most)
            learn(frames[i].address, STEP_LAST);
    }
}

#define UNWIND_EVERY 256u // captures of a thread

void call_walk(struct walked* walked, uint32_t wanted, uintptr_t caller, uintptr_t place) {
    if (++captures % UNWIND_EVERY == 0 || !follow_steps(walked, wanted, place, caller))
        call_walk_unwind(walked, wanted, caller);
}

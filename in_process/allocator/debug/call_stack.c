#include "allocator/debug/call_stack.h"
#include "allocator/debug/settings.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/stack.h"
#include <string.h>

#define FRAMES_MAX 32u
#define OWN_FRAMES 8u // between os_stack_walk and the function that captures
#define BUCKETS 16384u
#define CHUNK_SHIFT 17u // words of 8 bytes in a chunk: 1 MiB
#define CHUNK_BYTES ((size_t)8 << CHUNK_SHIFT)
#define CHUNKS 4096u

static KEEL_TLS bool walking;         // the unwinder may allocate
static KEEL_TLS uintptr_t stack_high; // the highest place on this thread's stack seen so far
static KEEL_TLS uint32_t captures;

struct walked {
    uint32_t depth;
    uintptr_t addresses[FRAMES_MAX];
};

// --- The table of stacks -------------------------------------------------------------------------

static struct {
    struct os_lock lock;
    atomic_word chunks[CHUNKS];
    uint32_t used; // words of all chunks; word 0 is not used, so that no stack has the number 0
    atomic_state buckets[BUCKETS];
} table;

struct call_stack* call_stack_of(uint32_t number) {
    if (number == 0) return NULL;
    char* chunk = (char*)atomic_get_acquire(&table.chunks[number >> CHUNK_SHIFT]);
    return (struct call_stack*)(chunk + (size_t)(number & ((1u << CHUNK_SHIFT) - 1)) * 8);
}

static uint64_t hash_of(const struct walked* walked) {
    uint64_t hash = walked->depth;
    for (uint32_t i = 0; i < walked->depth; i++)
        hash = (hash ^ hash >> 29 ^ walked->addresses[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return hash >> 32;
}

static bool is_stack(const struct call_stack* stack, const struct walked* walked) {
    return stack->depth == walked->depth &&
           memcmp(stack->addresses, walked->addresses, walked->depth * sizeof(uintptr_t)) == 0;
}

static uint32_t find(const struct walked* walked, atomic_state* bucket) {
    uint32_t number = atomic_get_acquire(bucket);
    while (number != 0 && !is_stack(call_stack_of(number), walked))
        number = call_stack_of(number)->next;
    return number;
}

// The caller holds the lock. Returns 0 if there is no memory.
static uint32_t reserve(size_t bytes) {
    uint32_t words = (uint32_t)(bytes / 8);
    uint32_t in_chunk = 1u << CHUNK_SHIFT;
    if (table.used == 0) table.used = 1;
    if ((table.used & (in_chunk - 1)) + words > in_chunk)
        table.used = (table.used + in_chunk - 1) & ~(in_chunk - 1);
    uint32_t chunk = table.used >> CHUNK_SHIFT;
    if (chunk >= CHUNKS) return 0;
    if (atomic_get(&table.chunks[chunk]) == 0) {
        void* memory = os_map(CHUNK_BYTES, os_page_bytes());
        if (memory == NULL) return 0;
        atomic_set_release(&table.chunks[chunk], (uintptr_t)memory);
    }
    uint32_t number = table.used;
    table.used += words;
    return number;
}

static uint32_t add(const struct walked* walked, atomic_state* bucket) {
    size_t bytes = walked->depth * sizeof(uintptr_t);
    os_lock_acquire(&table.lock);
    uint32_t number = find(walked, bucket);
    if (number == 0 && (number = reserve(sizeof(struct call_stack) + bytes)) != 0) {
        struct call_stack* stack = call_stack_of(number);
        stack->next = atomic_get(bucket);
        stack->depth = walked->depth;
        memcpy(stack->addresses, walked->addresses, bytes);
        atomic_set_release(bucket, number);
    }
    os_lock_release(&table.lock);
    return number;
}

static uint32_t number_of(const struct walked* walked) {
    if (walked->depth == 0) return 0;
    atomic_state* bucket = &table.buckets[hash_of(walked) % BUCKETS];
    uint32_t number = find(walked, bucket);
    return number != 0 ? number : add(walked, bucket);
}

void call_stack_visit(call_stack_visitor* visit, void* context) {
    for (unsigned i = 0; i < BUCKETS; i++) {
        uint32_t number = atomic_get_acquire(&table.buckets[i]);
        for (; number != 0; number = call_stack_of(number)->next)
            visit(context, call_stack_of(number), number);
    }
}

void call_stack_before_fork(void) {
    os_lock_acquire(&table.lock);
}
void call_stack_after_fork(void) {
    os_lock_release(&table.lock);
}

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
static bool follow_steps(struct walked* walked, uintptr_t place, uintptr_t address) {
    const uint32_t wanted = (uint32_t)setting(SETTING_STACK);
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

static void unwind(struct walked* walked, uintptr_t caller) {
    struct os_frame frames[FRAMES_MAX + OWN_FRAMES + 1];
    const uint32_t wanted = (uint32_t)setting(SETTING_STACK);
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

// The frame address is where the caller's is saved, and the return address is behind it.
KEEL_NOINLINE uint32_t call_stack_capture(void) {
    struct walked walked;
    if (setting(SETTING_STACK) == 0) return 0;
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    uintptr_t place = (uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t);
    if (++captures % UNWIND_EVERY == 0 || !follow_steps(&walked, place, caller))
        unwind(&walked, caller);
    return number_of(&walked);
}

/* Names of call stacks. A stack is walked by the unwind tables that C++ exceptions use, so it needs
 * no frame pointers; its name is a hash of its return addresses. Each ring is told the addresses
 * behind a name before the first event that bears it, and again when it has told many others since:
 * the reader forgets nothing, so that costs slots only.
 *
 * Cost: some 2 us a call with a shallow stack (bench/record-overhead), so it is off by default. */
#include <errno.h>
#include <execinfo.h>

#include "thread.h"

enum { WALK_MAX = 128, OWN_FRAMES = 8 };

static _Atomic bool prepared;

/* Loads what walking needs, before stacks are walked inside of malloc. */
__attribute__((constructor)) static void stack_prepare(void) {
    if (!recording() || session.stacks == 0) return;
    struct thread* thread = &recorder_thread;
    void* frames[2];
    thread->walking = true;
    backtrace(frames, 2); /* loads its library and allocates */
    thread->walking = false;
    atomic_store(&prepared, true);
}

static uint64_t stack_name(void* const* frames, int count) {
    uint64_t hash = (uint64_t)count;
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash & (KL_ORIGIN_STACK - 1);
}

/* Whether this ring told the stack lately; if not, it has from now on. */
static bool stack_told(uint64_t name) {
    uint64_t* told = (uint64_t*)(recorder_thread.ring + 1);
    uint64_t* place = &told[name % KL_RING_TOLD];
    if (*place == name) return true;
    *place = name;
    return false;
}

static uint64_t stack_walk(const void* caller) {
    void* frames[WALK_MAX];
    int depth = (int)session.stacks;
    int wanted = depth + OWN_FRAMES < WALK_MAX ? depth + OWN_FRAMES : WALK_MAX;
    int count = backtrace(frames, wanted);
    /* Our own frames come first; how many is the compiler's choice. */
    int first = 0;
    while (first < count && frames[first] != caller) first++;
    if (first == count) return (uint64_t)caller & (KL_ORIGIN_STACK - 1);
    count = count - first < depth ? count - first : depth;
    uint64_t name = stack_name(frames + first, count);
    if (!stack_told(name)) {
        for (int i = 0; i < count; i += 2) {
            uint64_t outer = i + 1 < count ? (uint64_t)frames[first + i + 1] : 0;
            record(KL_RING_STACK, ticks(), frames[first + i], outer, name);
        }
    }
    return KL_ORIGIN_STACK | name;
}

uint64_t stack_origin(const void* caller) {
    struct thread* thread = &recorder_thread;
    uint64_t plain = (uint64_t)caller & (KL_ORIGIN_STACK - 1);
    if (thread->walking || !atomic_load_explicit(&prepared, memory_order_relaxed)) return plain;
    if (session_state() != SESSION_ON || !thread_has_ring()) return plain;
    int saved_errno = errno;
    thread->walking = true;
    uint64_t name = stack_walk(caller);
    thread->walking = false;
    errno = saved_errno;
    return name;
}

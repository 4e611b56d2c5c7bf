// Names of call stacks. The recorder walks a stack with the unwind tables that C++ exceptions use,
// so it needs no frame pointers: by itself (unwind.h) where it can, else with the C library's
// backtrace, which takes microseconds. The name of a stack is a hash of its return addresses. The
// addresses of a stack are recorded in a ring before the first event that has this name, and again
// after many other stacks. The reader keeps all stacks, so a repetition only costs slots.
//
// Cost: some nanoseconds per frame (bench/record-overhead).
#include "origin.h"

#include "host.h"
#include "unwind.h"
#include <errno.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else
// musl has none, and unloads no code, so that the recorder's own walk is always possible.
static int backtrace(void** frames, int count) {
    (void)frames;
    (void)count;
    return 0;
}
#endif

enum { WALK_MAX = 128, OWN_FRAMES = 8 };

static _Atomic bool prepared;

__attribute__((constructor)) void origin_prepare(void) {
    if (!recording() || session.stacks == 0) return;
    void* frames[2];
    struct thread_own own = thread_own_begin();
    backtrace(frames, 2); // loads its library and allocates
    thread_own_end(own);
    atomic_set_release(&prepared, true);
}

static uint64_t stack_name(void* const* frames, int count) {
    uint64_t hash = (uint64_t)count;
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash & (KL_ORIGIN_STACK - 1);
}

// Returns true if this ring has described the stack recently. Otherwise notes that it describes the
// stack now.
static bool stack_is_recent(uint64_t name) {
    uint64_t* recent = (uint64_t*)(recorder_thread.slots + recorder_thread.ring_slots);
    uint64_t* entry = &recent[name % KL_RING_STACKS];
    if (*entry == name) return true;
    *entry = name;
    return false;
}

static uint64_t stack_walk(const void* caller) {
    void* frames[WALK_MAX];
    int depth = (int)session.stacks;
    int wanted = depth + OWN_FRAMES < WALK_MAX ? depth + OWN_FRAMES : WALK_MAX;
    int count = host_notices_unloading() ? unwind_walk(frames, wanted) : -1;
    if (count < 0) count = backtrace(frames, wanted);
    // The recorder's own frames come first. Their number depends on the compiler.
    int first = 0;
    while (first < count && frames[first] != caller) first++;
    if (first == count) return (uint64_t)caller & (KL_ORIGIN_STACK - 1);
    count = count - first < depth ? count - first : depth;
    uint64_t name = stack_name(frames + first, count);
    if (!stack_is_recent(name)) {
        for (int i = 0; i < count; i += 2) {
            uint64_t outer = i + 1 < count ? (uint64_t)frames[first + i + 1] : 0;
            record(KL_RING_STACK, ticks(), frames[first + i], outer, name);
        }
    }
    return KL_ORIGIN_STACK | name;
}

uint64_t origin_of_stack(const void* caller) {
    struct thread* thread = &recorder_thread;
    uint64_t plain = (uint64_t)caller & (KL_ORIGIN_STACK - 1);
    if (thread->walking || !atomic_get_acquire(&prepared)) return plain;
    if (session_state() != SESSION_ON || !thread_has_ring()) return plain;
    int saved_errno = errno;
    thread->walking = true;
    uint64_t name = stack_walk(caller);
    thread->walking = false;
    errno = saved_errno;
    return name;
}

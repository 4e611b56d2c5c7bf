#include "sampling.h"

#include "host.h"
#include "next.h"

// Whether the program's malloc calls no function by name that counts bytes. Small and large blocks
// may take different ways.
static bool malloc_is_flat(struct thread* thread) {
    static const size_t sizes[] = {24, 1 << 20};
    const uint64_t left = UINT64_C(1) << 62;
    bool flat = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && flat; i++) {
        thread->countdown = left;
        void* block = next.malloc(sizes[i]);
        flat = block != NULL && thread->countdown == left;
        next.free(block);
    }
    return flat;
}

// Found once, because a process never changes its malloc.
static void flat_find(struct thread* thread) {
    enum { UNKNOWN, FLAT, NOT_FLAT };
    static atomic_state found;
    if (atomic_get(&found) == UNKNOWN) atomic_set(&found, malloc_is_flat(thread) ? FLAT : NOT_FLAT);
    // No other recording begins meanwhile.
    if (atomic_get(&found) != FLAT || !session_enter()) return;
    atomic_set_release(&sampled_state.distance, countdown_distance());
    session_leave();
}

// Each thread has its own sequence of random numbers. A thread that was counting for an earlier
// recording of the process first ends that count.
static void countdown_start(struct thread* thread) {
    static atomic_bits threads;
    uint64_t number = atomic_add(&threads, 1);
    thread->random = session.sample_seed + number * UINT64_C(0xd1342543de82ef95);
    thread->sampling = atomic_get(&session.number) + 1;
    flat_find(thread);
    thread->countdown = sampled_distance(&thread->random, session.sample_bytes);
}

static void block_add(const void* block) {
    if (sampled_add(block) || !session_enter()) return;
    session_stop(KL_STOP_TOO_MANY_SAMPLES);
    session_leave();
}

bool sampling_takes(uint64_t left, const void* block, size_t size) {
    struct thread* thread = &recorder_thread;
    if (thread->countdown != left) return false;
    if (thread->sampling != atomic_get(&session.number) + 1) countdown_start(thread);
    if (thread->countdown > size) {
        thread->countdown -= size + 1;
        return false;
    }
    thread->countdown = sampled_distance(&thread->random, session.sample_bytes);
    block_add(block);
    host_look(); // the slow path, which also does this, is rare
    return true;
}

void sampling_keeps(const void* block) {
    if (session.sample_bytes != 0) block_add(block);
}

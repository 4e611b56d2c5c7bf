#include "sampling.h"

#include "host.h"

// Each thread has its own sequence of random numbers. A thread that was counting for an earlier
// recording of the process first ends that count.
static void countdown_start(struct thread* thread) {
    static atomic_bits threads;
    uint64_t number = atomic_add(&threads, 1);
    thread->random = session.sample_seed + number * UINT64_C(0xd1342543de82ef95);
    thread->sampling = atomic_get(&session.number) + 1;
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

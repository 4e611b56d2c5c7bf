// Which allocations are recorded: all, or samples (sampled.h).
//
//   malloc, nearly always, while samples are taken:
//     sampled_state.distance     of the countdown; not 0?
//     left = countdown           larger than the size?
//     countdown = left - size - 1
//     next.malloc                by a jump
//   calloc, and a malloc that is not flat:
//     left = countdown & mask    larger than the size?
//     next.calloc
//     sampling_passed            countdown = left - size - 1
//   free, nearly always:
//     sampled_maybe              one counter
//     next.free                  by a jump
//
// A function of an allocator may call another one by name. Then the inner call counts the bytes,
// and the outer one sees that the countdown has changed. A malloc that calls none is flat: it can
// count before the call. A malloc that fails then counts too, which changes no probability.
#ifndef KEEL_RECORDER_SAMPLING_H
#define KEEL_RECORDER_SAMPLING_H

#include "origin.h"
#include "sampled.h"

// The state before an allocation: whether calls are recorded, this thread's next index, its
// countdown, and the time if calls are timed, else 0.
struct before {
    bool on;
    uint64_t head;
    uint64_t left;
    uint64_t began;
};
KEEL_INLINE struct before before_call(void) {
    bool on = recording(); // may reset the others
    uint64_t began = KEEL_UNLIKELY(session.slow_ticks != 0) ? ticks() : 0;
    return (struct before){on, recorder_thread.head, recorder_thread.countdown, began};
}

// The ticks of a call that has just returned and is slow, else 0.
KEEL_INLINE uint64_t slow_ticks(struct before before) {
    if (KEEL_LIKELY(before.began == 0)) return 0;
    uint64_t took = ticks() - before.began;
    return took >= session.slow_ticks ? took : 0;
}
KEEL_INLINE void slow_record(uint64_t took, size_t size, uint64_t from) {
    if (KEEL_UNLIKELY(took != 0)) record(KL_RING_SLOW, ticks(), (const void*)took, size, from);
}

// The countdown of a thread by its distance from the thread pointer, which is in sampled_state: the
// library's table of such distances is in another page.
KEEL_INLINE uint64_t* countdown_at(uintptr_t distance) {
    return (uint64_t*)((uintptr_t)__builtin_thread_pointer() + distance);
}
KEEL_INLINE uintptr_t countdown_distance(void) {
    return (uintptr_t)&recorder_thread.countdown - (uintptr_t)__builtin_thread_pointer();
}

// An allocation of fewer bytes is no sample. 0 if everything is recorded.
KEEL_INLINE uint64_t sampling_left(void) {
    return recorder_thread.countdown & atomic_get(&sampled_state.mask);
}

// Counts an allocation of `size` bytes, less than `left`.
KEEL_INLINE void sampling_passed(uint64_t left, size_t size) {
    if (KEEL_LIKELY(recorder_thread.countdown == left)) recorder_thread.countdown = left - 1 - size;
}

// Counts an allocation, and returns true if it is a sample, which is then in the set.
bool sampling_takes(uint64_t left, const void* block, size_t size);

// Returns true if the allocation is to be recorded: it succeeded, the allocator has not called
// another function for it, which recorded it, and it is a sample if samples are taken.
KEEL_INLINE bool allocation_counts(struct before before, const void* block, size_t size) {
    if (!before.on || block == NULL) return false;
    if (KEEL_UNLIKELY(recorder_thread.head != before.head) &&
        thread_recorded_allocation(before.head, block))
        return false;
    return session.sample_bytes == 0 || sampling_takes(before.left, block, size);
}

// Records an allocation that counts. `word` is the size word of the event.
KEEL_INLINE void allocation_record(enum kl_ring_op op, struct before before, const void* block,
                                   size_t size, uint64_t word, const void* caller) {
    uint64_t took = slow_ticks(before);
    if (KEEL_UNLIKELY(!allocation_counts(before, block, size))) return;
    uint64_t from = origin(caller);
    record(op, ticks(), block, word, from);
    slow_record(took, size, from);
}

// The size that the program requested from an aligned operator of libstdc++, which rounds it up to
// a multiple of the alignment. Else `size`.
KEEL_INLINE size_t size_before_rounding(size_t size, size_t align) {
    size_t requested = recorder_thread.new_size;
    return requested != 0 && requested <= size && size - requested < align ? requested : size;
}

// Returns true if the release of the block is to be recorded. A sample is then no longer in the
// set.
KEEL_INLINE bool release_counts(const void* block) {
    return session.sample_bytes == 0 || sampled_remove(block);
}

// A realloc of this block has failed: it is still live.
void sampling_keeps(const void* block);

// Records the end of a realloc of `block` that began from `from` and took so long (slow_ticks).
// `moved` is the new block; NULL: there is none, and `freed` says whether the old one was freed
// nevertheless.
KEEL_INLINE void realloc_record_end(struct before before, uint64_t took, const void* block,
                                    const void* moved, size_t size, bool freed, uint64_t from) {
    bool failed = moved == NULL && !freed;
    if (failed) sampling_keeps(block);
    // If the new block was allocated by name, it is already recorded; or it is no sample. Then only
    // the release is recorded.
    bool created = allocation_counts(before, moved, size);
    record(KL_RING_REALLOC_END, ticks(), created ? moved : NULL, created || failed ? size : 0,
           (uint64_t)block & KL_EXTRA_MASK);
    if (created) slow_record(took, size, from);
}

#endif

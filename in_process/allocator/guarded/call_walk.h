// The call stack of the calling thread, fast: the distances between nested calls on the stack are
// remembered, so that the unwinder runs only for calls that have not been seen.
#ifndef KEEL_ALLOCATOR_GUARDED_CALL_WALK_H
#define KEEL_ALLOCATOR_GUARDED_CALL_WALK_H

#include "base/attributes.h"
#include <stdint.h>

#define WALK_FRAMES_MAX 32u

struct walked {
    uint32_t depth;
    uintptr_t addresses[WALK_FRAMES_MAX]; // return addresses, innermost first
};

// Stores the calls from the one that returns to `caller` on, at most `wanted`. `place` is where
// that address is on the stack: behind the frame address of the calling function, where its
// caller's frame address is saved.
void call_walk(struct walked* walked, uint32_t wanted, uintptr_t caller, uintptr_t place);

// The same, always by the unwinder.
void call_walk_unwind(struct walked* walked, uint32_t wanted, uintptr_t caller);

#endif

// The origin of a call (journal/ring.h, ORIGIN): its return address, or the name of its call stack.
#ifndef KEEL_RECORDER_ORIGIN_H
#define KEEL_RECORDER_ORIGIN_H

#include "base/attributes.h"
#include "thread.h"

// Loads the unwinder, if this process is recorded with call stacks: inside malloc, where stacks are
// walked, that is impossible. It is a constructor; a recording that begins later must call it.
void origin_prepare(void);

// Returns the name of the stack of the call that returns to `caller`. Records the stack's
// addresses, unless this ring has recorded them recently. Preserves errno.
uint64_t origin_of_stack(const void* caller);

KEEL_INLINE uint64_t origin(const void* caller) {
    const void* outer = recorder_thread.caller;
    if (KEEL_UNLIKELY(outer != NULL)) caller = outer;
    if (KEEL_UNLIKELY(session.stacks != 0)) return origin_of_stack(caller);
    return (uint64_t)caller & (KL_ORIGIN_STACK - 1);
}

#endif

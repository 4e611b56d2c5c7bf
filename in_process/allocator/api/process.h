// The allocator in a process: start, thread exit, fork, exit.
#ifndef KEEL_ALLOCATOR_API_PROCESS_H
#define KEEL_ALLOCATOR_API_PROCESS_H

#include "base/atomic.h"

extern atomic_state process_started;

void process_start(void);

// Called at the beginning of every slow path that may be the first one of the process.
KEEL_INLINE void process_enter(void) {
    if (KEEL_UNLIKELY(atomic_get(&process_started) == 0)) process_start();
}

// Around a fork of the calling thread. Handlers of pthread_atfork call them, and those of a zone on
// macOS between these: only the outermost calls of a thread lock and unlock.
void process_before_fork(void);
void process_after_fork(void);

#endif

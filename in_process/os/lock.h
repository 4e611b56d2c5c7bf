// A mutex for the few rare paths that need one (a new window, the pool of heaps). Waiters sleep in
// the kernel, so no thread spins while the holder is descheduled. A zero-initialised lock is free.
// No thread holds one during a system call, except a thread that forks, and on Windows one that
// unmaps or discards memory.
//
// A thread that forks holds every lock from Keel's prepare handler to Keel's handler in the parent
// and in the child. Handlers of other libraries run in between and may allocate and free. So the
// thread enters a lock that it already holds: acquire and release then change nothing.
//
// A thread that has found a fault may hold locks whose release it never reaches, and the program's
// handler of SIGABRT may allocate, free or fork. Therefore such a thread waits for a lock only for
// LOCK_TIMEOUT_MS and then takes it over.
#ifndef KEEL_OS_LOCK_H
#define KEEL_OS_LOCK_H

#include "base/atomic.h"

struct os_lock {
    atomic_state state; // 0 free, 1 held, 2 held and a thread may sleep
};

void os_lock_wait(struct os_lock* lock);
void os_lock_wake(struct os_lock* lock);

// True while the calling thread holds every lock. api/process.c sets it after it has acquired them,
// and clears it before it releases them.
extern KEEL_TLS bool os_lock_holds_all;

// True once the calling thread has found a fault. api/message.c sets it.
extern KEEL_TLS bool os_lock_takes_over;

// For a lock in memory that was mapped just now.
KEEL_INLINE void os_lock_init(struct os_lock* lock) {
    atomic_set(&lock->state, os_lock_holds_all ? 1 : 0);
}

KEEL_INLINE bool os_lock_try(struct os_lock* lock) {
    uint32_t expected = 0;
    return atomic_try_state(&lock->state, &expected, 1) || os_lock_holds_all;
}

KEEL_INLINE void os_lock_acquire(struct os_lock* lock) {
    if (KEEL_UNLIKELY(!os_lock_try(lock))) os_lock_wait(lock);
}

KEEL_INLINE void os_lock_release(struct os_lock* lock) {
    if (KEEL_UNLIKELY(os_lock_holds_all)) return;
    if (KEEL_UNLIKELY(atomic_swap(&lock->state, 0) == 2)) {
        os_lock_wake(lock);
    }
}

#endif

// Thread exit and fork, as callbacks that the layers above register.
#ifndef KEEL_OS_THREAD_H
#define KEEL_OS_THREAD_H

#include "base/atomic.h"
#include <stdbool.h>
#include <stdint.h>

// The system's number of the calling thread. A system call.
uint32_t os_thread_id(void);

// `on_exit` will run in every thread that has called os_thread_exit_arm, with the armed value, when
// that thread ends, unless the system has no key left. Called once, at process start.
void os_thread_exit_register(void (*on_exit)(void* value));

// Has no effect before os_thread_exit_register. NULL disarms the callback for this thread.
void os_thread_exit_arm(void* value);

// To be called once, in a constructor, for the size of the stacks.
void os_thread_prepare(void);

// A thread of Keel. Zero: not started.
struct os_thread {
    uintptr_t handle;
    atomic_state known; // 1: `handle` is set, or the system has refused
};

// Starts a thread with all signals blocked except SIGSYS, and 128 KiB of stack. It is not a
// realtime thread, if the system permits this change; on Linux it may run where the process's first
// thread may. False: the system refuses. May allocate.
bool os_thread_start(struct os_thread* thread, void (*run)(void));

// Waits until a thread whose function returns has ended. os_thread_start may not have returned yet.
void os_thread_join(struct os_thread* thread);

// True if the C library knows that the process has no second thread (glibc 2.32 and later).
bool os_process_has_one_thread(void);

// True on a thread that os_thread_start made.
extern KEEL_TLS bool os_thread_is_own;

// Sleeps until os_wake(word), at most `microseconds`; not at all if *word is no longer `expected`.
void os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds);
void os_wake(atomic_state* word);

// Orders all threads: what each of them wrote before a write that the caller has already seen, the
// caller sees from now on. On x86-64 this is always so; elsewhere a system call. False: the system
// cannot do it.
bool os_order_threads(void);

// May allocate: to be called once the allocator works.
void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif

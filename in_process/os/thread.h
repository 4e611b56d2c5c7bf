// Thread exit and fork, as callbacks that the layers above register.
#ifndef KEEL_OS_THREAD_H
#define KEEL_OS_THREAD_H

#include <stdbool.h>

// `on_exit` will run in every thread that has called os_thread_exit_arm, with the armed value, when that thread
// ends. Called once, at process start. False when the system has no key left.
bool os_thread_exit_register(void (*on_exit)(void* value));

// Without effect before os_thread_exit_register, or with NULL (disarms).
void os_thread_exit_arm(void* value);

// May allocate: to be called once the allocator works.
void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif

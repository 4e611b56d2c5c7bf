#include "os/thread.h"
#include <pthread.h>

static pthread_key_t exit_key;
static bool exit_key_made;

bool os_thread_exit_register(void (*on_exit)(void* value)) {
    exit_key_made = pthread_key_create(&exit_key, on_exit) == 0;
    return exit_key_made;
}

void os_thread_exit_arm(void* value) {
    if (exit_key_made) (void)pthread_setspecific(exit_key, value);
}

void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)pthread_atfork(before, in_parent, in_child);
}

// Blocks all signals around code that a recording signal handler must not interrupt.
#ifndef KEEL_RECORDER_SIGNALS_H
#define KEEL_RECORDER_SIGNALS_H

#include "base/attributes.h"
#if defined(_WIN32) // whose signals interrupt no thread
typedef int signal_set;

KEEL_INLINE signal_set signals_block(void) {
    return 0;
}

KEEL_INLINE void signals_restore(signal_set before) {
    (void)before;
}
#else
#include <pthread.h>
#include <signal.h>
typedef sigset_t signal_set;

KEEL_INLINE signal_set signals_block(void) {
    signal_set all;
    signal_set before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

KEEL_INLINE void signals_restore(signal_set before) {
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
#endif

#endif

// Blocks all signals around code that a recording signal handler must not interrupt.
#ifndef KEEL_RECORDER_SIGNALS_H
#define KEEL_RECORDER_SIGNALS_H

#include "base/attributes.h"
#include <pthread.h>
#include <signal.h>

KEEL_INLINE sigset_t signals_block(void) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

KEEL_INLINE void signals_restore(sigset_t before) {
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif

/* What no signal handler of the program may come in the middle of, since the handler may record. */
#ifndef KEEL_RECORDER_SIGNALS_H
#define KEEL_RECORDER_SIGNALS_H

#include <pthread.h>
#include <signal.h>

static inline sigset_t signals_block(void) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

static inline void signals_restore(sigset_t before) {
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif

// Sets of signals as the system passes them.
#ifndef KEEL_OS_SIGNALS_H
#define KEEL_OS_SIGNALS_H

#include "os/call.h"
#include <signal.h>

typedef uint64_t os_signals; // bit s - 1: signal s

KEEL_INLINE os_signals os_signal(int number) {
    return UINT64_C(1) << (number - 1);
}
// Blocks these besides those that the calling thread blocks already. False: refused.
KEEL_INLINE bool os_signals_block(os_signals more, os_signals* before) {
    return os_call(SYS_rt_sigprocmask, SIG_BLOCK, &more, before, sizeof more) == 0;
}
KEEL_INLINE void os_signals_restore(os_signals before) {
    (void)os_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

#endif

// Counts of the calls to the system.
#ifndef KEEL_OS_COUNT_H
#define KEEL_OS_COUNT_H

#include "base/counters.h"
#include "os/thread.h"

// Such a call on a thread of the program is what the latency contract is about.
KEEL_INLINE void os_count_call(enum event event) {
    count_event(event, 1);
    if (!os_thread_is_own) count_event(EVENT_INLINE_CALLS, 1);
}

#endif

// After U. Drepper, "Futexes Are Tricky" (2011), mutex 2: state 2 makes the holder wake one
// sleeper.
#include "os/call.h"
#include "os/lock.h"
#include <time.h>

#define LOCK_TIMEOUT_MS 100
#define WAIT_MS 10

KEEL_TLS bool os_lock_holds_all;
KEEL_TLS bool os_lock_takes_over;

void os_lock_wait(struct os_lock* lock) {
    static const struct timespec limit = {.tv_nsec = WAIT_MS * 1000000L};
    bool limited = os_lock_takes_over;
    for (unsigned waits = 0; atomic_swap(&lock->state, 2) != 0; waits++) {
        if (limited && waits == LOCK_TIMEOUT_MS / WAIT_MS) break; // the thread is the holder now
        (void)os_call(SYS_futex, &lock->state, OS_FUTEX_WAIT, 2, limited ? &limit : NULL);
    }
}

void os_lock_wake(struct os_lock* lock) {
    (void)os_call(SYS_futex, &lock->state, OS_FUTEX_WAKE, 1);
}

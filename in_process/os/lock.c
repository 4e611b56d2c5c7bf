// After U. Drepper, "Futexes Are Tricky" (2011), mutex 2: state 2 makes the holder wake one
// sleeper.
#include "os/lock.h"
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

KEEL_TLS bool os_lock_holds_all;

void os_lock_wait(struct os_lock* lock) {
    int saved = errno;
    while (atomic_swap(&lock->state, 2) != 0) {
        (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
    errno = saved;
}

void os_lock_wake(struct os_lock* lock) {
    int saved = errno;
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

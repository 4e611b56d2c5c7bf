// As in linux_lock.c: state 2 makes the holder wake one sleeper.
//
// At its end a process ends all threads but one, wherever they are, and then runs the destructors
// of its libraries. A lock may be held by a thread that no longer exists.
#include "os/lock.h"
#include "os/windows/system.h"

#define LOCK_TIMEOUT_MS 100
#define WAIT_MS 10

KEEL_TLS bool os_lock_holds_all;
KEEL_TLS bool os_lock_takes_over;

BOOLEAN NTAPI RtlDllShutdownInProgress(void); // of ntdll; no header declares it

void os_lock_wait(struct os_lock* lock) {
    static const uint32_t asleep = 2;
    const bool limited = os_lock_takes_over;
    DWORD saved = GetLastError();
    for (unsigned waits = 0; atomic_swap(&lock->state, 2) != 0; waits++) {
        if (RtlDllShutdownInProgress()) break;                    // the thread is the only one
        if (limited && waits == LOCK_TIMEOUT_MS / WAIT_MS) break; // the thread is the holder now
        (void)WaitOnAddress(&lock->state, (void*)&asleep, sizeof asleep,
                            limited ? WAIT_MS : INFINITE);
    }
    SetLastError(saved);
}

void os_lock_wake(struct os_lock* lock) {
    WakeByAddressSingle((void*)&lock->state);
}

// The functions that `keel attach` calls in a program that runs already. keel opens this library in
// a thread of the program that waits in a system call, calls kl_attached_start in it, and later
// kl_attached_stop and kl_attached_release.
//
// The library is not unloaded: another thread may be inside one of its functions, or have read the
// address of one before the hooks were removed.
#include "base/attributes.h"
#include "hooks.h"
#include "next.h"
#include "origin.h"
#include "session.h"
#include "thread.h"
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

// Begins a recording in the session `folder`. Returns the number of addresses that lead here, 0 if
// the program was started with this library, or minus an errno. EALREADY: this process is recorded.
// ENOEXEC: no object calls these functions through a table.
KEEL_EXPORT long kl_attached_start(const char* folder);

// Ends it and removes the hooks. Returns as kl_attached_release, which it calls.
KEEL_EXPORT long kl_attached_stop(void);

// Returns 1 if no thread used the rings, so that their memory was released; else 0: call it again.
KEEL_EXPORT long kl_attached_release(void);

// Returns true if the program was started with this library. Its calls arrive here anyway.
static bool is_preloaded(void) {
    uintptr_t stub;
    return hooks_definition("malloc", &stub) == (uintptr_t)malloc;
}

long kl_attached_start(const char* folder) {
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    bool preloaded = is_preloaded();
    if (!preloaded) {
        next_of_running_program();
        hooks_find();
        hooks_prepare_fork();
    }
    int error = session_start_in(folder);
    if (error == 0) origin_prepare(); // before the hooks: it allocates
    long count = error != 0 || preloaded ? -error : (long)hooks_set();
    if (error == 0 && !preloaded && count == 0) {
        kl_attached_stop();
        count = -ENOEXEC;
    }
    pthread_setcancelstate(cancelling, NULL);
    return count;
}

long kl_attached_stop(void) {
    hooks_clear();
    if (session_state() == SESSION_ON && session_enter()) {
        session_stop(KL_STOP_READER_ASKED);
        session_leave();
    }
    return kl_attached_release();
}

long kl_attached_release(void) {
    return session_release() ? 1 : 0;
}

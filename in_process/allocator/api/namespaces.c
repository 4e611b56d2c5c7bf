// unshare and setns: some of what they do the system permits to a process of one thread only. A
// keeper that the program has not asked for ends first. Slow paths start it again later.
//
// prctl: a program that sets no_new_privs or a filter of seccomp enters a sandbox. It may end the
// process if it makes a system call that the program itself does not need, such as clone; a filter
// for all threads fails while a thread has another one; and what a sandbox ends is often the
// thread, which must then be the last. So the keeper ends first, and none starts later. The limit
// on the address space is not read again.
//
// A program that makes these calls without the C library's functions needs KEEL_KEEPER=off.
#include "allocator/keeper/keeper.h"
#include "allocator/slices/window.h"
#include "base/attributes.h"
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES 2000u // the system lists a thread that has ended for some microseconds more

static int call_alone(long number, long first, long second) {
    bool ended = keeper_end_confined();
    for (unsigned tries = 0;; tries++) {
        int result = (int)syscall(number, first, second);
        if (result == 0 || errno != EINVAL || !ended || tries == TRIES) return result;
        (void)sched_yield();
    }
}

KEEL_EXPORT int unshare(int flags) {
    return call_alone(SYS_unshare, flags, 0);
}
KEEL_EXPORT int setns(int file, int type) {
    return call_alone(SYS_setns, file, type);
}
KEEL_EXPORT int prctl(int option, ...) {
    va_list list;
    unsigned long arguments[4];
    va_start(list, option);
    for (int i = 0; i < 4; i++) arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
        window_fix_space_limit();
        keeper_forbid_confined();
    }
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

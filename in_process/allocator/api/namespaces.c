// unshare and setns: some of what they do the system permits to a process of one thread only. A
// keeper that the program has not asked for ends first. Slow paths start it again later.
//
// A program that makes these calls without the C library's functions needs KEEL_KEEPER=off.
#include "allocator/keeper/keeper.h"
#include "base/attributes.h"
#include <errno.h>
#include <sched.h>
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

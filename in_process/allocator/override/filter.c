// A program that sets a filter of system calls does it by prctl or by the system call of seccomp,
// for which the C library has no function but syscall. Both pass here first, so that Keel makes
// only the calls of malloc from then on (os/confined.h).
//
// What defeats it: a program that makes the call by an instruction of its own, or that looks up the
// function in the C library's file.
#if defined(__linux__)
#include "os/call.h"
#include "os/confined.h"
#include "os/process.h"
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

// Elsewhere os/linux_call.c itself needs the C library's function.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_THREAD__) &&              \
    !defined(__SANITIZE_ADDRESS__)

static void note(uintptr_t option) {
    if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) os_confine();
}

typedef long syscall_function(long number, ...);
typedef int prctl_function(int option, ...);

// Other preloaded libraries may replace the functions, too. NULL: in a static program, and before
// the constructor.
static syscall_function* syscall_next;
static prctl_function* prctl_next;

__attribute__((constructor)) static void find_next(void) {
    *(void**)&syscall_next = os_next_symbol("syscall");
    *(void**)&prctl_next = os_next_symbol("prctl");
}

static long with_errno(intptr_t result) {
    if (!os_call_failed(result)) return result;
    errno = (int)-result;
    return -1;
}

KEEL_EXPORT long syscall(long number, ...) {
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (unsigned i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_seccomp) os_confine();
    if (number == SYS_prctl) note((uintptr_t)a[0]);
    if (syscall_next != NULL) return syscall_next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return with_errno(os_call(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

KEEL_EXPORT int prctl(int option, ...) {
    unsigned long a[4];
    va_list arguments;
    va_start(arguments, option);
    for (unsigned i = 0; i < 4; i++) a[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    note((uintptr_t)option);
    if (prctl_next != NULL) return prctl_next(option, a[0], a[1], a[2], a[3]);
    return (int)with_errno(os_call(SYS_prctl, option, a[0], a[1], a[2], a[3]));
}

#endif
#endif

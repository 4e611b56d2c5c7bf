#include "os/fault.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#if defined(__linux__) && defined(__x86_64__)
#include <ucontext.h>
#endif

static os_fault_examiner* examine_fault;
static struct sigaction before; // the action that this one replaced

static enum os_access access_of(const void* context) {
#if defined(__linux__) && defined(__x86_64__)
    return (((const ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? OS_WRITE : OS_READ;
#else
    (void)context;
    return OS_ACCESS;
#endif
}

// The instruction runs again after the handler, faults again, and ends the process where it is: so
// the core file shows the fault. A signal that a process has sent is sent again.
static void act_by_default(int signal, bool sent) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigaction(signal, &action, NULL);
    if (sent) (void)raise(signal);
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    int saved = errno;
    bool sent = info->si_code <= 0;
    if (!sent) examine_fault((uintptr_t)info->si_addr, access_of(context));
    errno = saved;
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
    else if (!sent || before.sa_handler == SIG_DFL)
        act_by_default(signal, sent);
}

bool os_fault_watch(os_fault_examiner* examine) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    int saved = errno;
    examine_fault = examine;
    action.sa_sigaction = on_fault;
    (void)sigemptyset(&action.sa_mask);
    bool done = sigaction(SIGSEGV, NULL, &before) == 0 && sigaction(SIGSEGV, &action, NULL) == 0;
    errno = saved;
    return done;
}

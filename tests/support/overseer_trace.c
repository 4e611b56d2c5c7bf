// See overseer_trace.h. A traced thread stops at the begin and at the end of each system call.
#include "overseer_trace.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SYSTEM_CALL_STOP = SIGTRAP | 0x80 }; // PTRACE_O_TRACESYSGOOD

static long calls = -1;

void trace_me(void) {
    // The parent sees this stop first, and sets the options.
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) raise(SIGSTOP);
}

static bool begins_call(pid_t thread) {
    struct __ptrace_syscall_info info;
    long bytes = ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
    return bytes > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

void trace_continue(pid_t thread, int status) {
    long signal = WSTOPSIG(status);
    if (calls < 0) {
        calls = 0;
        ptrace(PTRACE_SETOPTIONS, thread, NULL,
               (long)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                      PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL));
    }
    if (signal == SYSTEM_CALL_STOP) calls += begins_call(thread);
    // Stops of the tracing itself are not signals of the program: system calls, events, and the
    // first stop of each thread.
    bool own = signal == SYSTEM_CALL_STOP || signal == SIGSTOP || status >> 16 != 0;
    ptrace(PTRACE_SYSCALL, thread, NULL, own ? 0 : signal);
}

long trace_count(void) {
    return calls;
}

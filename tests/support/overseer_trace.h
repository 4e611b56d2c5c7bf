// Counts the system calls of all processes below the overseer, with ptrace.
#pragma once

#include <sys/types.h>

// In the child, before exec: lets the parent trace it, or goes on untraced if that is forbidden.
void trace_me(void);
// In the parent: counts a system call if a stopped thread begins one, and lets the thread go on.
void trace_continue(pid_t thread, int status);
// The system calls so far, or -1 if no thread was traced.
long trace_count(void);

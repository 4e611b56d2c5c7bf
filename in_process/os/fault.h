// Memory faults of the program (SIGSEGV).
#ifndef KEEL_OS_FAULT_H
#define KEEL_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum os_access { OS_ACCESS, OS_READ, OS_WRITE }; // OS_ACCESS: the system does not state which

// `examine` is called at each memory fault, on the thread and the stack of its signal handler. Then
// the action runs that was in force before this call: another handler, or the end of the process.
// A handler that the program installs later replaces this one. Called once. False: refused.
typedef void os_fault_examiner(uintptr_t address, enum os_access access);
bool os_fault_watch(os_fault_examiner* examine);

#endif

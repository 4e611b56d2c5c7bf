// Which system calls a sandbox of the process may punish.
//
// A filter of system calls (seccomp) can end the process at a call that it does not list. So calls
// that malloc can do without are made only while no filter can be there:
//
//   state      learnt from                              calls
//   free       /proc/self/status shows no filter        all
//   inherited  it shows one: set before exec            those of every start of a program
//   blind      and /proc/self/pagemap cannot be read    the same
//   confined   os_confine: the program sets one now     those of malloc
//
// The file is read before the first call that only a free process makes. PR_SET_NO_NEW_PRIVS counts
// as a filter, because it precedes one. docs/decisions/0022-filters-of-system-calls.md has the
// reasons, docs/reference/system-calls.md the lists.
#ifndef KEEL_OS_CONFINED_H
#define KEEL_OS_CONFINED_H

#include "base/atomic.h"
#include <stdbool.h>

enum os_confinement { OS_UNKNOWN, OS_FREE, OS_INHERITED, OS_BLIND, OS_CONFINED };
extern atomic_state os_confinement;

// False: a filter may be there. The first call of the process reads a file.
bool os_may_look(void);

// False: the process cannot learn which pages have memory (os_resident). True also as long as
// nobody has asked: no file is read for the answer.
KEEL_INLINE bool os_can_see_memory(void) {
    return atomic_get(&os_confinement) <= OS_INHERITED;
}
// The inherited filter, or the system, has no answer.
KEEL_INLINE void os_see_no_memory(void) {
    uint32_t inherited = OS_INHERITED;
    (void)atomic_try_state(&os_confinement, &inherited, OS_BLIND);
}

// False: the program itself has set a filter. True also for an inherited one: the loader of the
// program has opened files and asked for limits behind it. No system call.
KEEL_INLINE bool os_may_open(void) {
    return atomic_get(&os_confinement) != OS_CONFINED;
}

// The program is about to set a filter, for one of its threads or for all.
KEEL_INLINE void os_confine(void) {
    atomic_set(&os_confinement, OS_CONFINED);
}

// Lines of /proc/self/status.
struct os_status {
    bool filtered;          // or the file cannot be read
    bool huge_pages_denied; // by PR_SET_THP_DISABLE
};
void os_status_read(struct os_status* status);

#endif

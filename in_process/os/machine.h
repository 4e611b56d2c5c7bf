// The processors and the memory that this process may use.
#ifndef KEEL_OS_MACHINE_H
#define KEEL_OS_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct os_machine {
    uint32_t processors;         // that this process may run on
    uint64_t processors_milli;   // limit of its control group, in 1/1000 processor; 0: none
    uint64_t memory_bytes;       // of the machine
    uint64_t memory_limit_bytes; // smallest limit of its control groups and RLIMIT_AS; 0: none
};

// Reads the control groups (version 2 and 1) of the process, up to the root. A few dozen system
// calls, no allocation.
void os_machine(struct os_machine* machine);

// The most address space that the process may have (RLIMIT_AS). UINT64_MAX: no limit. A system
// call; in a process that has set a filter of system calls none, but the last answer.
uint64_t os_address_space_limit(void);

// Bytes that the control groups of the process can still take up before one of them reaches its
// limit (version 2: memory.max or memory.high; version 1: memory.limit_in_bytes). Unused file pages
// count as free. UINT64_MAX: no limit is known. 0 in a process that has set a filter of system
// calls. A few dozen system calls, no allocation.
uint64_t os_memory_headroom(void);

// True if the system gives this process huge pages where it requests them. Reads two files.
bool os_machine_has_huge_pages(void);

#endif

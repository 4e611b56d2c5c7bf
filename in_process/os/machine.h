// The processors and the memory that this process may use.
#ifndef KEEL_OS_MACHINE_H
#define KEEL_OS_MACHINE_H

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

#endif

// What of the machine this process may use.
#ifndef KEEL_OS_MACHINE_H
#define KEEL_OS_MACHINE_H

#include <stdint.h>

struct os_machine {
    uint32_t processors; // that this process may run on
    uint64_t
        processors_milli;  // thousandths of processors that its control group grants; 0: no limit
    uint64_t memory_bytes; // of the machine
    uint64_t
        memory_limit_bytes; // the smallest limit of its control groups and of RLIMIT_AS; 0: none
};

// Reads the control groups (version 2 and 1) of the process, up to the root. A few dozen system
// calls, no allocation.
void os_machine(struct os_machine* machine);

#endif

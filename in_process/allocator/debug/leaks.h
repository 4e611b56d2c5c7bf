// The report of blocks that are still live at the end of the process, by call stack.
//
// A block is reachable if a word in the program's writable memory, or in a reachable block, has an
// address in it. Any word counts, so a block may be reported as reachable that is not, but a block
// that is reported as lost is lost, unless the program keeps its address only in a register of
// another thread, in memory shared with other processes, or in an altered form.
#ifndef KEEL_ALLOCATOR_DEBUG_LEAKS_H
#define KEEL_ALLOCATOR_DEBUG_LEAKS_H

#include "allocator/debug/settings.h"

// Linear in the writable memory of the process.
void leaks_report(settings_output* output);

#endif

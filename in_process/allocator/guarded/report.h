// Reports about guarded blocks: what happened, where, and who allocated and freed the block.
#ifndef KEEL_ALLOCATOR_GUARDED_REPORT_H
#define KEEL_ALLOCATOR_GUARDED_REPORT_H

#include "allocator/guarded/placement.h"
#include "base/panic.h"
#include "os/fault.h"

// A call was given this address, or found this byte overwritten. Ends the process.
KEEL_COLD KEEL_NORETURN void guarded_panic(enum fault fault, const struct guarded* block,
                                           const char* address);

// The program accessed an address that it must not. Prints the report and returns. Only the first
// access of the process is reported.
void guarded_report_access(const struct guarded* block, const char* address, enum os_access access);

// Where such a report goes to. Called once, at process start.
typedef void guarded_output(const char* text);
void guarded_set_output(guarded_output* output);

#endif

// The messages about faults in the debug flavour: what, which block, and the call stacks.
#ifndef KEEL_ALLOCATOR_DEBUG_FAULT_REPORT_H
#define KEEL_ALLOCATOR_DEBUG_FAULT_REPORT_H

#include "allocator/debug/record.h"
#include "base/attributes.h"
#include "base/format.h"
#include "base/panic.h"
#include "os/stack.h"
#include <stdbool.h>

// True while a thread reports a fault, which usually ends the process. No block is verified then: a
// handler of the program that allocates or ends the process would find the same fault again.
bool fault_is_reported(void);

// `address` is that of the call; `record` is NULL if the block is not known. `stack` is that of the
// calling thread.
KEEL_COLD KEEL_NORETURN void fault_of_call(enum fault fault, const void* address,
                                           const struct record* record, uint32_t stack);
// The same for a free with a size.
KEEL_COLD KEEL_NORETURN void fault_of_size(const struct record* record, size_t size,
                                           uint32_t stack);
// The same, but the process goes on.
KEEL_COLD void report_of_size(const struct record* record, size_t size, uint32_t stack);
// The same for a free by a function for blocks of another kind.
KEEL_COLD KEEL_NORETURN void fault_of_kind(const struct record* record, enum block_kind kind,
                                           uint32_t stack);
// The same, but the process goes on. Only the first call writes a message.
KEEL_COLD void report_of_kind(const struct record* record, enum block_kind kind, uint32_t stack);

// `byte` is one that the program has overwritten, in or around the block. `freed`: the block is in
// quarantine.
KEEL_COLD KEEL_NORETURN void fault_of_write(const struct record* record, const char* byte,
                                            bool freed, uint32_t stack);

// Appends a line for each address of a stack: the address, and the file and the offset in it.
void report_stack(struct text* text, const struct os_maps* maps, uint32_t stack);

#endif

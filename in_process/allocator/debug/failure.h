// Allocations that fail on request (KEEL_FAIL), so that a program's handling of it can be tested.
#ifndef KEEL_ALLOCATOR_DEBUG_FAILURE_H
#define KEEL_ALLOCATOR_DEBUG_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

// From now on allocations may fail. Before, the C library and the loader start the process.
void failure_allow(void);

// True if this allocation has to fail.
bool failure_is_due(size_t size);

#endif

// Freed blocks, until the bytes of all of them exceed the setting. Then the oldest is verified and
// returned to the allocator below.
#ifndef KEEL_ALLOCATOR_DEBUG_QUARANTINE_H
#define KEEL_ALLOCATOR_DEBUG_QUARANTINE_H

#include "allocator/debug/record.h"
#include <stdbool.h>

// Adds a block whose record is in no list, has the state RECORD_MOVING and a charge. May return
// other blocks to the allocator below.
void quarantine_add(struct record* record, uint32_t stack);

// Returns all blocks to the allocator below.
void quarantine_empty(uint32_t stack);

// Between these calls, which may be nested, the thread returns no block. A visitor of a heap must
// not, because the heap is locked and may be that of the block.
void quarantine_pause(void);
void quarantine_resume(void);

// True while a thread is returning a block.
bool quarantine_is_returning(void);

void quarantine_before_fork(void);
void quarantine_after_fork(void);
void quarantine_repair_in_child(void);

#endif

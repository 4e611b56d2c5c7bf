// Verifying blocks that are live or in quarantine.
#ifndef KEEL_ALLOCATOR_DEBUG_CHECK_BLOCKS_H
#define KEEL_ALLOCATOR_DEBUG_CHECK_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

// Verifies all blocks and returns their number. Ends the process at the first fault. Linear in the
// records and in the bytes of the quarantine.
size_t check_all_blocks(uint32_t stack);

// To be called at each allocation: verifies some blocks if a check is due.
void check_some_blocks(uint32_t stack);

void check_before_fork(void);
void check_after_fork(void);

#endif

// What the debug flavour writes into blocks, and verifies.
//
//   guard and canary   from the time the block is allocated until it leaves the quarantine
//   new fill           the program's bytes of a new block that need not be zero (0xAC)
//   freed fill         the program's bytes of a block in quarantine (0xDB)
//
// As a pointer, a word of either fill is no address of a process.
#ifndef KEEL_ALLOCATOR_DEBUG_CONTENTS_H
#define KEEL_ALLOCATOR_DEBUG_CONTENTS_H

#include "allocator/debug/record.h"
#include <stdbool.h>

// A lower block has at least these bytes before and behind the program's bytes.
#define PREFIX_BYTES ((size_t)32)
#define CANARY_BYTES ((size_t)16)

// The canary reaches to the end of the lower block. A roomy block has at most this much of it:
// otherwise, a resize by a few bytes would write and verify all of its room.
#define CANARY_ROOMY ((size_t)4096)

// Bytes that the program's block may have without another lower block.
size_t contents_capacity(const struct record* record);

// The end of the lower block.
char* contents_end(const struct record* record);

// Writes the number, the guard and the canary of a new block.
void contents_seal(const struct record* record);
// Fills the first bytes of a new block, as many as the setting says.
void contents_fill_new(const struct record* record);

// Changes the size of a block that may have it. Fills the bytes that it gains, or zeroes them.
void contents_resize(struct record* record, size_t size, bool zero);

// Fills a block that was freed, or discards its system pages if it is large. Sets what the block
// costs the quarantine.
void contents_fill_freed(struct record* record);

// A byte that is not what was written. NULL: there is none.
struct wrong {
    const char* byte;
};
// Of a live block: the last byte of the guard, else the first byte of the canary.
struct wrong contents_verify(const struct record* record);
// Of a block in quarantine: also the first byte of the fill.
struct wrong contents_verify_freed(const struct record* record);

#endif

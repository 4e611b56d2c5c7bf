// The debug flavour: a layer between the public functions and the allocator. Each block that the
// program gets is inside a block of the allocator (a lower block), between a guard and a canary. It
// has a record (record.h). Other flavours do not contain this folder.
//
//   malloc                                        free
//   `- entry_request (api/entry.c)                `- debug_free
//      |- debug_lower: the lower block's size        |- its record; if it has none: fault
//      |- the allocator below                        |- verify guard and canary
//      `- debug_begin: record, guard, canary,        |- fill it
//         fill, call stack                           `- quarantine_add; the oldest block there is
//                                                       verified and freed in the allocator below
#ifndef KEEL_ALLOCATOR_DEBUG_DEBUG_H
#define KEEL_ALLOCATOR_DEBUG_DEBUG_H

#include "allocator/alloc/user_heap.h"
#include "allocator/debug/record.h"
#include "allocator/debug/settings.h"

// --- The process ---------------------------------------------------------------------------------

// Reads the settings.
void debug_start(char* const* environment, settings_output* output);
// When the library is loaded: prepares call stacks, and allows failures.
void debug_loaded(void);
// At the end: verifies all blocks, and lists those that are live, as the settings say.
void debug_end(settings_output* output);

void debug_before_fork(void);
void debug_after_fork(void);
void debug_repair_in_child(void);

// --- Blocks --------------------------------------------------------------------------------------

struct debug_request {
    struct request lower; // for the allocator below
    size_t prefix;        // the program's block is that many bytes behind the result
    bool roomy;           // the lower block has room for a larger block
};

// False: the allocation fails, because it is too large, or because KEEL_FAIL requests it.
bool debug_lower(const struct request* request, struct debug_request* debug);

// Makes the lower block the program's, and returns its address for the program. NULL: no memory,
// and the lower block is free.
void* debug_begin(void* lower, const struct request* request, const struct debug_request* debug);

// These end the process if the address is not that of a live block, with one exception: that of a
// foreign block, if the option `foreign_free` allows it.
// `kind` is that of the blocks which the calling function may free; another one is a fault too,
// unless a setting allows it.
void debug_free(void* address, enum block_kind kind);
void debug_free_sized(void* address, size_t size, enum block_kind kind);
// For a block that is resized. NULL has no kind.
void debug_require_kind(const void* address, enum block_kind kind);
// Of a block that was just allocated, as BLOCK_MALLOC. NULL has no kind.
void debug_set_kind(const void* address, enum block_kind kind);
enum block_kind debug_kind(const void* address);

// Returns the size of a live block. False: a foreign block.
bool debug_size(const void* address, size_t* size);

// Blocks from this size on get room when they are resized, a quarter of the size, and are resized
// in place until it is used up. Otherwise a block that grows to n bytes in small steps would cost
// n^2.
#define ROOM_FROM ((size_t)64 << 10)
#define ROOM_SHARE 4

// Resizes a live block in place. False: it has no room, or is more than twice as large.
bool debug_resize_in_place(void* address, const struct request* request);

// Makes a live block smaller. False: it is not that large, or does not have the alignment.
bool debug_shrink(void* address, const struct request* request);

// Returns the size of the block, or 0 if there is no live block at the address.
size_t debug_usable_bytes(const void* address);

// Ends the process if the bytes are in a block of the program, but not all of them, or in one that
// is in quarantine. Takes no lock, and may be called in a signal handler.
void debug_require_within(const void* address, size_t bytes);

// Returns the address of the lower block, which the functions below know, or the address itself if
// it is not that of a block.
const void* debug_lower_address(const void* address);

// Returns the program's address of a lower block, or NULL if the program does not hold it.
void* debug_visited(const void* lower);

// --- Heaps and checks ----------------------------------------------------------------------------

// Before the heap is destroyed: verifies its live blocks. Then none of them has a record.
void debug_heap_ends(struct user_heap* user);

// To be called around a visit of a heap, which locks the heap.
void debug_visit_begins(void);
void debug_visit_ends(void);

// Returns the blocks in quarantine to the allocator below. True: another thread may still be
// returning one that was in it.
bool debug_empty_quarantine(void);
// Gives it time.
void debug_wait(void);

// Verifies all blocks and returns their number.
size_t debug_check_all(void);

#endif

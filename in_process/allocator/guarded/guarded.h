// Guarded blocks: each is beside a page that cannot be accessed, so that an access beyond its end,
// before its start, or after its free ends the program at once.
//
//   a slot, 64 KiB: for blocks of up to 60 KiB
//   +-------+-----------------------------+--------+-------+---+
//   | guard | memory                      | canary | block | c |  guard of the next slot
//   +-------+-----------------------------+--------+-------+---+
//
//   The canary c is shorter than the alignment. One block in four is at the beginning of the memory
//   instead. A block for which a slot is too small gets a mapping with a guard on each side.
//
//   CLOSED --opened--> READY --allocated--> LIVE --freed--> FREED --closed--> CLOSED
//
// Opening and closing are system calls. Where a keeper runs, it keeps 8 slots ready and closes the
// freed blocks, within 32 ms or when 4 of them wait. Threads do it themselves if they are ahead of
// it, or if there is no keeper. Closed memory is returned to the system, except for the system page
// of a small block. The slot that has been closed longest is opened next.
//
// The page metadata of a live block is that of a jumbo block, with PAGE_GUARDED. A slot is a slice,
// and mappings are larger than one, so each block has its own.
#ifndef KEEL_ALLOCATOR_GUARDED_GUARDED_H
#define KEEL_ALLOCATOR_GUARDED_GUARDED_H

#include "allocator/space/page_map.h"
#include "base/panic.h"
#include "os/fault.h"
#include <stdbool.h>

#define GUARDED_SLOTS 256u
#define GUARDED_MAPPINGS 32u
#define GUARDED_CLOSED_BYTES ((size_t)256 << 20) // address space of freed mappings, or one of them

// Places a block and returns its metadata, which has no heap and no size_class yet. The memory is
// zero. NULL: no place. `realtime`: without a system call, if a keeper runs. Otherwise at most 3.
struct page* guarded_allocate(size_t bytes, size_t alignment, bool at_begin, bool realtime);

// Ends the process if no block begins at this address of a guarded block.
void guarded_verify(const struct page* page, const void* address);

// Frees a live block. Ends the process if a byte beside it was overwritten.
void guarded_free(struct page* page);

// `address` is not that of a live block. Ends the process if it is in the memory of guarded blocks.
void guarded_free_unknown(const void* address);

// Returns the memory of blocks that have been freed, and wait for the keeper: at most 16. How many
// there were.
unsigned guarded_close_freed(void);

// For the keeper: opens and closes some slots. True: there was something to do.
bool guarded_keep(void);
// True: the keeper should do that soon.
bool guarded_waits(void);
// True: there are live or freed blocks in slots, so the keeper should not sleep long. It is woken
// for several freed blocks only.
bool guarded_is_used(void);
// Set by the keeper: ends its sleep.
void guarded_set_wake(void (*wake)(void));

// A memory fault: prints a report if the address is beside or in a guarded block.
void guarded_examine(uintptr_t address, enum os_access access);

void guarded_before_fork(void);
void guarded_after_fork(void);
void guarded_repair_in_child(void);

// Verifies the lists of blocks; only when no other thread is active.
bool guarded_check(void);

#endif

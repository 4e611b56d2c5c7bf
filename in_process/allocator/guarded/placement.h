// One guarded block: its place in its memory, the canaries beside it, and its call stacks.
#ifndef KEEL_ALLOCATOR_GUARDED_PLACEMENT_H
#define KEEL_ALLOCATOR_GUARDED_PLACEMENT_H

#include "allocator/guarded/call_walk.h"
#include "base/atomic.h"

#define GUARDED_FRAMES 20u

enum guarded_state {
    GUARDED_UNUSED, // a mapping that does not exist
    GUARDED_CLOSED, // a slot that is not accessible; `start` is NULL until it has had a block
    GUARDED_READY,
    GUARDED_LIVE,
    GUARDED_FREED, // not closed yet
};

struct guarded_call {
    uint32_t thread;
    struct walked walked;
};

struct guarded {
    atomic_state state;   // enum guarded_state
    char* area;           // the memory between the guards
    size_t area_bytes;    // a multiple of the system page
    atomic_word begin;    // of a mapping and its guards, while it may be found; 0: it may not
    atomic_word end;      // of these
    char* start;          // of the block that it has or had last
    char* kept;           // a system page of it that keeps its memory while it is closed, or NULL
    size_t bytes;         // that were requested
    struct guarded* next; // in one of the lists (guarded.c)
    struct guarded_call allocated;
    struct guarded_call freed;
};

// True if a block of this size and alignment fits into the memory.
bool guarded_fits(const char* area, size_t area_bytes, size_t bytes, size_t alignment);

// Places a block that fits, and writes the canaries. Blocks whose alignment is larger than a system
// page are always at the end.
void guarded_place(struct guarded* block, size_t bytes, size_t alignment, bool at_begin);

// The system page that contains the block and its canaries; NULL: they are in more than one.
char* guarded_page_to_keep(const struct guarded* block);

// Zeroes what the last block has left in the memory that was kept.
void guarded_clean(struct guarded* block);

// The first overwritten byte beside the block; NULL: none.
const char* guarded_overwritten(const struct guarded* block);

// Records the call stack of the calling thread. A thread's first call is a system call.
void guarded_record_call(struct guarded_call* call);
// The same for a fault, on the stack of a signal handler.
void guarded_record_found(struct guarded_call* call);
void guarded_forget_thread(void);

#endif

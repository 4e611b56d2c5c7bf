// The records of blocks: one for each block that the program holds or that is in quarantine.
//
// Records are in memory of their own, so that an overflow cannot reach them. The block itself only
// has its record's number, in its first word:
//
//   start    +8                    block            block + size          end of the lower block
//   | number | guard (>= 24 bytes) | the program's  | canary (>= 16 bytes) |
//   '-------- prefix --------------'
//
// The lower block is what the allocator below provides. A record states where it is, so a number
// that an overflow has changed is noticed.
#ifndef KEEL_ALLOCATOR_DEBUG_RECORD_H
#define KEEL_ALLOCATOR_DEBUG_RECORD_H

#include "base/atomic.h"

enum record_state {
    RECORD_UNUSED,  // in a list of unused records; describes the block that it was used for last
    RECORD_LIVE,    // the program holds the block
    RECORD_MOVING,  // a thread is freeing the block, or returning it to the allocator below
    RECORD_KEPT,    // the block is in quarantine
    RECORD_GONE,    // in quarantine too, but its user heap was destroyed
    RECORD_BUSY = 8 // flag: a thread verifies the block, and others must wait
};

// The functions that allocate blocks, each with those that may free them.
enum block_kind {
    BLOCK_MALLOC,
    BLOCK_NEW,
    BLOCK_NEW_ARRAY,
    BLOCK_NEW_ALIGNED,
    BLOCK_NEW_ARRAY_ALIGNED,
    BLOCK_ANY // for functions that free blocks of any kind
};

struct record {
    char* start;   // of the lower block
    size_t prefix; // bytes before the program's block
    size_t size;   // that the program requested
    atomic_state state;
    uint32_t next;            // number of the next record in its list; 0: none
    uint32_t next_far;        // the same, in the table of blocks that are `far`
    uint32_t charge;          // of a kept block, in units of 16 bytes
    uint8_t emptied;          // 1: the system pages of a kept block were discarded, not filled
    uint8_t roomy;            // 1: the block may be resized in place; the canary is limited
    uint8_t far;              // 1: the block begins behind the first slice of a large lower block
    uint8_t kind;             // enum block_kind
    uint32_t allocated_stack; // numbers of call_stack.h
    uint32_t freed_stack;
    uint32_t allocated_thread;
    uint32_t freed_thread;
};

KEEL_INLINE char* record_block(const struct record* record) {
    return record->start + record->prefix;
}

// The calling thread's number, without a system call except the first time.
uint32_t record_thread(void);

// The part of the state that is shared by some threads only.
#define RECORD_SHARDS 16u
KEEL_INLINE unsigned record_shard(void) {
    return record_thread() % RECORD_SHARDS;
}

// Returns an unused record, or NULL if there is no memory. Its state is RECORD_MOVING.
struct record* record_new(void);
void record_release(struct record* record);

uint32_t record_number(const struct record* record);
// NULL: there is no such record.
struct record* record_of_number(uint32_t number);

// Numbers are below this one.
uint32_t record_end(void);

// Sets the place of the block: `prefix` bytes behind `lower`, an address in the lower block.
void record_place(struct record* record, void* lower, size_t prefix);

// Stores the record's number in its block.
void record_mark(const struct record* record);
bool record_is_marked(const struct record* record);

// Returns the record of the lower block that contains the address, or NULL if the block's first
// word does not lead to one. The allocator below knows large blocks by their first slice only. A
// block that is aligned to a slice or more is behind it, and is found by its own address only, in a
// hash table.
struct record* record_around(const void* address);

// The same without the look into the hash table, which takes a lock.
struct record* record_near(const void* address);

// Likewise, but compares all records if the first word leads to none. If no block is live or kept
// there, returns a record of the block that was there, if one is left. For reports.
struct record* record_search(const void* address);

// Changes the state from `from` to `to`. Waits while it is RECORD_BUSY. Returns the state that it
// found: `from` if it was changed.
uint32_t record_change(struct record* record, enum record_state from, enum record_state to);
// Marks a record that has this state as busy. False: it has another one.
bool record_hold(struct record* record, enum record_state state);
void record_unhold(struct record* record, enum record_state state);

void record_before_fork(void);
void record_after_fork(void);
void record_forget_thread(void);

#endif

// Call stacks, each stored once under a number.
//
// Unwinding a stack takes some microseconds. Therefore capture learns from the unwinder how far
// apart on the stack the return addresses of two nested calls are. This distance, a step, belongs
// to the inner return address, because nearly all functions have a frame of constant size:
//
//   call_stack_capture
//   |- follow the steps from the own return address          most calls, about 0.1 µs
//   |- unwind, if a step is not known or varies, and now and then to compare the steps
//   `- find the stack in the table, or add it
//
// A function whose frame varies (alloca) is recognised when two distances have been seen. Before,
// the addresses behind it may be wrong. Where the places of return addresses are not known (not
// x86-64), every capture unwinds.
#ifndef KEEL_ALLOCATOR_DEBUG_CALL_STACK_H
#define KEEL_ALLOCATOR_DEBUG_CALL_STACK_H

#include "base/atomic.h"

// A stack in the table. Only the counts change. The counts are for the report of leaks.
struct call_stack {
    uint32_t next; // number of the next stack with the same hash; 0: none
    uint32_t depth;
    uint64_t lost_blocks;
    uint64_t lost_bytes;
    uint64_t reachable_blocks;
    uint64_t reachable_bytes;
    uintptr_t addresses[]; // `depth` of them
};

// Returns the number of the calling thread's stack, from the function that calls this one on. 0:
// unknown. Does not allocate from the heap. Once all stacks take 128 MiB, new ones are stored with
// 4 frames, and from 256 MiB on none.
uint32_t call_stack_capture(void);

// NULL for number 0.
struct call_stack* call_stack_of(uint32_t number);

// Visits all stacks, in any order. No other thread may capture one for the first time.
typedef void call_stack_visitor(void* context, struct call_stack* stack, uint32_t number);
void call_stack_visit(call_stack_visitor* visit, void* context);

void call_stack_before_fork(void);
void call_stack_after_fork(void);

#endif

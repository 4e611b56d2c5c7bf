// Counts what a call of the allocator does on its thread: steps, system calls, waits for locks. A
// step is a basic block of the allocator's code: the compiler reports each one that is executed
// (-fsanitize-coverage=trace-pc). Loops in memset and memcpy are not counted.
#ifndef KEEL_TESTS_BOUNDS_COUNT_H
#define KEEL_TESTS_BOUNDS_COUNT_H

#include "os/lock.h"
#include <stdbool.h>
#include <stdint.h>

struct cost {
    uint64_t steps;
    unsigned calls; // of the system, without waits for locks
    unsigned waits;
};

void count_begin(void);
struct cost count_end(void);

// The largest number of steps between taking and releasing this lock, by any thread, while holds
// are counted (they are not during a fork, which holds all locks).
void count_holds(bool counts);
uint64_t count_longest_hold(const struct os_lock* lock);
// The lock that this thread took last.
const struct os_lock* count_last_lock(void);

// Called on a thread that is about to wait for a lock.
extern void (*count_on_wait)(void);

#endif

// States of a process that make work for the calls of one thread.
#ifndef KEEL_TESTS_BOUNDS_STATES_H
#define KEEL_TESTS_BOUNDS_STATES_H

#include <stddef.h>

struct state {
    const char* name;
    void (*prepare)(void);
};

enum {
    STATE_NEW,
    STATE_SPACE,
    STATE_FRAGMENTS,
    STATE_HEAPS,
    STATE_MAPPINGS,
    STATE_QUEUE,
    STATE_RELIEF,
    STATE_SCARCE,
    STATE_LIMIT,
    STATE_ALL,
    STATES
};
extern const struct state states[STATES];

// Sets the limit on the address space of the process (RLIMIT_AS) above what it has.
void limit_address_space(size_t bytes_left);

// The calling thread continues without a heap, as if it was another thread.
void become_new_thread(void);

#endif

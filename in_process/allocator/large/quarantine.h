// Secure flavour: freed large blocks wait here, so that their addresses are not reused at once.
//
// A ring of QUARANTINE_PLACES ranges of memory. A new range takes the place of the oldest one.
// Lock- free: a place is taken by exchanging its start.
#ifndef KEEL_ALLOCATOR_LARGE_QUARANTINE_H
#define KEEL_ALLOCATOR_LARGE_QUARANTINE_H

#include "base/atomic.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUARANTINE_PLACES 16u

struct quarantined {
    char* start; // NULL: none
    size_t bytes;
    uint32_t thread; // that has put it there
    uint32_t closed; // 1: the range cannot be accessed
};

struct quarantine {
    atomic_state next;   // the place of the oldest range, modulo the number of places
    atomic_signed bytes; // of all ranges
    struct {
        atomic_word start; // 0: empty; 1: a thread changes the place
        size_t bytes;
        uint32_t thread;
        uint32_t closed;
    } place[QUARANTINE_PLACES];
};

// Puts a range. Returns the one that leaves for it: the oldest, or `range` itself if another thread
// changes the same place. Start NULL: none leaves.
struct quarantined quarantine_put(struct quarantine* quarantine, struct quarantined range);

// The range that begins at the address, which stays. Start NULL: there is none.
struct quarantined quarantine_find(struct quarantine* quarantine, const void* start);

// The start of the range in this place; 0: none, or a thread changes the place.
uintptr_t quarantine_at(const struct quarantine* quarantine, unsigned at);

// Takes the range in this place. Start NULL: none, or a thread changes the place.
struct quarantined quarantine_take_at(struct quarantine* quarantine, unsigned at);

// Verifies the places and their sum; only when no other thread is active.
bool quarantine_is_consistent(const struct quarantine* quarantine);

// Takes the oldest range. Start NULL: none is left.
struct quarantined quarantine_take(struct quarantine* quarantine);

#endif

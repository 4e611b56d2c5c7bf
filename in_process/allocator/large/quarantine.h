// Secure flavour: freed large blocks wait here, so that their addresses are not reused at once.
//
// A ring of QUARANTINE_PLACES ranges of memory. A new range takes the place of the oldest one.
// Lock-free: a thread holds a place while it changes it, and other threads pass it by. The place
// says what is in it meanwhile, for a child of fork that has no such thread.
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
    uint32_t access; // enum quarantine_access
};
enum quarantine_access {
    ACCESS_OPEN,
    ACCESS_CLOSED,  // the range cannot be accessed
    ACCESS_UNKNOWN, // another thread held it at a fork; its content is not known either
};

struct quarantine {
    atomic_state next;   // the place of the oldest range, modulo the number of places
    atomic_signed bytes; // of all ranges, without those that are held
    struct {
        atomic_word start; // 0: empty; | 1: a thread holds the place
        size_t bytes;
        uint32_t thread;
        uint32_t access;
    } place[QUARANTINE_PLACES];
};

// The place of the oldest range, which is the newest from now on.
unsigned quarantine_turn(struct quarantine* quarantine);

// Holds a place. *range: what is in it; start NULL: nothing. False: another thread holds it.
bool quarantine_hold(struct quarantine* quarantine, unsigned at, struct quarantined* range);

// The thread that holds the place is about to put this range there; start NULL: what was there is
// about to be released.
void quarantine_note(struct quarantine* quarantine, unsigned at, struct quarantined range);

// Ends that. The place has this range then; start NULL: none.
void quarantine_set(struct quarantine* quarantine, unsigned at, struct quarantined range);

// The range that begins at the address, which stays. Start NULL: there is none.
struct quarantined quarantine_find(struct quarantine* quarantine, const void* start);

// The start of the range in this place; 0: none, or a thread holds the place.
uintptr_t quarantine_at(const struct quarantine* quarantine, unsigned at);

// In a child of fork: what its parent's other threads held is in its place.
void quarantine_forget(struct quarantine* quarantine);

// Verifies the places and their sum; only when no other thread is active.
bool quarantine_is_consistent(const struct quarantine* quarantine);

#endif

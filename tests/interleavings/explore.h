// An explorer of interleavings: runs a few threads with Keel's own code in every significant order.
//
// Idea: the code under test is compiled with another base/atomic.h, in which every operation is a
// step of a coroutine. The explorer decides which thread takes the next step. It runs the same
// scenario repeatedly from the same state, depth first over these decisions, until none is left:
//
//   run:   decisions d0 d1 d2 .. dn   -> threads over -> check -> all writes undone
//   next:  the deepest decision that has an alternative takes it; what stood before is replayed
//
// The significant alternatives are found by source sets with sleep sets (P. Abdulla, S. Aronis, B.
// Jonsson, K. Sagonas, "Optimal Dynamic Partial Order Reduction", POPL 2014, algorithm 1): of all
// orders of steps that touch different words, or only read, one is run. The exploration is
// therefore exhaustive up to that equivalence, unless a scenario limits its preemptions.
//
// Memory model: see docs/decisions/0015-exploring-interleavings.md. In short, with `weak` == 0
// every load sees the newest store (sequential consistency); with `weak` == n, up to n times a run,
// a load may see any older store that its ordering does not exclude, and a weak compare-and-swap
// may fail spuriously. In both modes, plain accesses that no declared ordering separates are
// reported as a race.
//
// Deterministic: no clock, no kernel threads, and no randomness except a fixed seed.
#ifndef KEEL_TESTS_EXPLORE_H
#define KEEL_TESTS_EXPLORE_H

#include "check.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_THREADS_MAX 5u
#define EXPLORE_ALL UINT32_MAX

struct explore_scenario {
    const char* name;
    void (*prepare)(void); // runs once; its effects are the initial state of every run
    void (*run[EXPLORE_THREADS_MAX])(void);  // the threads
    const char* called[EXPLORE_THREADS_MAX]; // their names in a printed schedule
    void (*check)(void);                     // after each run; NULL: none
    unsigned threads;
    unsigned preemptions; // EXPLORE_ALL: every significant order; else the limit
    unsigned weak;        // weak behaviours per run
    unsigned daemons;     // bit i: thread i may be asleep when all others have ended
};

// Explores all schedules, prints `explored NAME: ...`, and fails the test with the schedule if a
// run fails.
void explore_holds(const struct explore_scenario* scenario);

// Explores until a run fails, and fails the test if no run fails or if the message lacks `words`.
// Prints the schedule on request (EXPLORE_VERBOSE=1).
void explore_finds(const struct explore_scenario* scenario, const char* words);

// Explores twice, with the reduction and in every order of all steps, and fails the test unless
// both have the same outcomes (the values that each step of each thread saw). Returns the number of
// outcomes.
unsigned explore_outcomes(const struct explore_scenario* scenario);

// Breaks an atomic operation in a function of the code under test. Call it before exploring.
enum explore_break {
    INTACT,
    SPLIT,    // a read-modify-write becomes a load and a store
    WEAKENED, // its ordering becomes relaxed
    LEFT_OUT, // does nothing; returns 0 or success
};
void explore_break(const char* function, const char* verb, enum explore_break how);

// In a thread or in check: the run fails unless the condition is true.
#define EXPLORE_CHECK(condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) explore_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition);       \
    } while (0)
__attribute__((noreturn, format(printf, 1, 2))) void explore_fail(const char* format, ...);

// In prepare: the name with which pointers to this object are printed.
void explore_name(const void* start, size_t bytes, const char* name);

// In prepare: declares a thread-local variable; every thread of the scenario has its own copy.
void explore_local(void* variable, size_t bytes);

// In prepare: from now on the system has no more memory.
void explore_refuse_memory(void);

// A thread of the scenario may call os_call with SYS_futex and FUTEX_WAIT_PRIVATE or
// FUTEX_WAKE_PRIVATE. Sleeps have no timeout here: a thread that only a timeout would wake counts
// as asleep for ever.

// Ends the calling thread of the scenario.
__attribute__((noreturn)) void explore_end_thread(void);

// The calling thread's number; EXPLORE_THREADS_MAX in prepare and check.
unsigned explore_self(void);

#endif

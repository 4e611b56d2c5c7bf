// The interface between the parts of the explorer. One run at a time; all state is reset when a run
// begins.
#ifndef KEEL_TESTS_ENGINE_H
#define KEEL_TESTS_ENGINE_H

#include "explore.h"
#include "verbs.h"

#define THREADS_MAX EXPLORE_THREADS_MAX
#define STEPS_MAX 2000u
#define LOCATIONS_MAX 224u
#define NO_LOCATION 0xFFFFu

// For each thread, the number of its steps that are known.
struct clocks {
    uint16_t of[THREADS_MAX];
};

// The effect of a step on its location, as far as it matters for the order of two steps.
enum access {
    ACCESS_NONE,  // no access: wakes up
    ACCESS_READ,  //
    ACCESS_ADD,   // to a count whose old value is not used: two additions commute
    ACCESS_WRITE, //
};

// A step that a thread is about to take.
struct step {
    struct verb_site* site;
    uint16_t location;
    uint8_t access;
};

// A step of the schedule.
struct event {
    struct step step;
    uint8_t thread;
    uint8_t weak;         // 1: a stale value or a spurious failure
    uint16_t number;      // of the thread's steps, from 1
    struct clocks before; // what happens before it, and the step itself
    uint64_t seen;
    uint64_t left;
};

// --- engine.c: the run ---
enum phase { OUTSIDE, RUNNING, CHECKING };
extern enum phase phase;
extern unsigned self;

// Waits until the scheduler lets the calling thread take this step.
void step_begin(const struct step* step);
// The step's values, for the schedule; ends the step.
void step_end(uint64_t seen, uint64_t left, bool weak);
// Within a step: chooses one of `count` possibilities; the search tries all, 0 first.
unsigned step_choose(unsigned count);
// Like step_choose, for weak behaviours: always 0 once the run has reached its limit of them.
unsigned step_choose_weak(unsigned count);
// The calling thread sleeps from now on until thread_wake.
void thread_sleep(void);
void thread_wake(unsigned thread);
const struct explore_scenario* scenario_now(void);

// --- search.c: the next decision ---
enum { PICK_NOBODY = -1, PICK_REDUNDANT = -2 };
void search_begin(const struct explore_scenario* scenario);
void search_run_begin(void);
// The thread of `enabled` (one bit per thread) that takes the next step.
int search_pick(unsigned enabled, const struct step* pending);
void search_event(struct event* event, const struct clocks* woken_by);
unsigned search_choose(unsigned count);
unsigned search_choose_weak(unsigned count);
// True if there is another run to do.
bool search_next(void);
unsigned search_depth(void);
const struct event* search_events(void);

// --- memory.c: atomic locations ---
void memory_run_begin(void);
uint16_t memory_location(const void* p, unsigned bytes);
uint64_t memory_newest(uint16_t location);
const struct clocks* memory_clocks(unsigned thread); // what happens before, as declared

// --- plain.c: accesses that are not atomic ---
void plain_run_begin(void);
void plain_undo(void);
void plain_log(void* p, unsigned bytes); // about to be written
void plain_check_atomic(const void* p, unsigned bytes, bool write);
// The clock of the newest plain write to this word in this run since the last call, if there is
// one.
bool plain_written(const void* p, unsigned bytes);
void plain_ignore(const void* start, size_t bytes);

// --- switch.c: coroutines ---
#define SWITCH_MAIN THREADS_MAX        // the explorer's own stack
#define SWITCH_CHECK (THREADS_MAX + 1) // the stack that `check` runs on
void switch_prepare(unsigned slot, void (*run)(void));
void switch_to(unsigned from, unsigned to);
bool switch_is_stack(const void* p);

// --- system.c: the system calls of the code under test ---
void system_run_begin(void);

// --- report.c ---
void report_schedule(int file, const struct explore_scenario* scenario);

#endif

// Executes the runs.
#include "engine.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCALS_MAX 4u
#define LOCAL_BYTES 16u

enum phase phase = OUTSIDE;
unsigned self = THREADS_MAX;

static const struct explore_scenario* scenario;
static struct step pending[THREADS_MAX];
static bool over[THREADS_MAX];
static bool asleep[THREADS_MAX];
static bool woken[THREADS_MAX];
static struct clocks woken_by[THREADS_MAX];
static bool starting; // the threads run to their first step, one after another
static bool redundant;
static bool prepared;
static bool noting;       // the outcomes of runs
static char failure[512]; // empty: no failure

static struct {
    void* variable;
    size_t bytes;
    char initial[LOCAL_BYTES];
    char of[THREADS_MAX][LOCAL_BYTES];
} locals[LOCALS_MAX];
static unsigned locals_count;

const struct explore_scenario* scenario_now(void) {
    return scenario;
}
unsigned explore_self(void) {
    return phase == RUNNING ? self : EXPLORE_THREADS_MAX;
}

void explore_local(void* variable, size_t bytes) {
    if (locals_count == LOCALS_MAX || bytes > LOCAL_BYTES) abort();
    locals[locals_count].variable = variable;
    locals[locals_count].bytes = bytes;
    memcpy(locals[locals_count++].initial, variable, bytes);
    plain_ignore(variable, bytes);
}

static void locals_reset(void) {
    for (unsigned i = 0; i < locals_count; i++) {
        memcpy(locals[i].variable, locals[i].initial, locals[i].bytes);
        for (unsigned t = 0; t < THREADS_MAX; t++)
            memcpy(locals[i].of[t], locals[i].initial, locals[i].bytes);
    }
}

// From the stack of `self` (or the explorer's) to another's, thread-local variables included.
static void go_to(unsigned to) {
    unsigned from = self;
    if (from == to) return;
    for (unsigned i = 0; i < locals_count; i++) {
        if (from < THREADS_MAX) memcpy(locals[i].of[from], locals[i].variable, locals[i].bytes);
        if (to < THREADS_MAX) memcpy(locals[i].variable, locals[i].of[to], locals[i].bytes);
    }
    self = to;
    switch_to(from, to);
}

static unsigned enabled_threads(void) {
    unsigned enabled = 0;
    for (unsigned i = 0; i < scenario->threads; i++) {
        if (!over[i] && !asleep[i]) enabled |= 1u << i;
    }
    return enabled;
}

// Lets the next thread take its step. Returns when the caller is the next.
static void schedule(void) {
    if (starting) {
        go_to(SWITCH_MAIN);
        return;
    }
    int next = search_pick(enabled_threads(), pending);
    redundant = next == PICK_REDUNDANT && enabled_threads() != 0;
    go_to(next < 0 ? SWITCH_MAIN : (unsigned)next);
}

void step_begin(const struct step* step) {
    pending[self] = *step;
    schedule();
}

void step_end(uint64_t seen, uint64_t left, bool weak) {
    struct event event = {
        .step = pending[self], .thread = (uint8_t)self, .weak = weak, .seen = seen, .left = left};
    search_event(&event, woken[self] ? &woken_by[self] : NULL);
    woken[self] = false;
}

unsigned step_choose(unsigned count) {
    return search_choose(count);
}
unsigned step_choose_weak(unsigned count) {
    return search_choose_weak(count);
}

void thread_sleep(void) {
    static struct verb_site site = {"", "", "wakes up", "", 0, 0, 0};
    struct step step = {&site, NO_LOCATION, ACCESS_NONE};
    asleep[self] = true;
    step_begin(&step);
    step_end(0, 0, false);
}

void thread_wake(unsigned thread) {
    asleep[thread] = false;
    woken[thread] = true;
    woken_by[thread] = search_events()[search_depth() - 1].before;
}

void explore_end_thread(void) {
    over[self] = true;
    schedule();
    abort(); // an ended thread is never chosen
}

static void thread_main(void) {
    scenario->run[self]();
    explore_end_thread();
}

static void check_main(void) {
    if (scenario->check != NULL) scenario->check();
    go_to(SWITCH_MAIN);
}

void explore_fail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure, sizeof failure, format, arguments);
    va_end(arguments);
    if (phase == OUTSIDE) check_fail(__FILE__, __LINE__, "%s", failure);
    for (;;) go_to(SWITCH_MAIN);
}

static void on_crash(int number) {
    explore_fail("signal %d (%s)", number,
                 number == SIGSEGV ? "a bad address" : "the code under test aborts");
}

static void catch_crashes(void) {
    static char stack[16384];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    (void)sigaltstack(&alternative, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
    (void)sigaction(SIGILL, &action, NULL);
}

static void check_all_over(void) {
    for (unsigned i = 0; i < scenario->threads; i++) {
        if (over[i] || (scenario->daemons >> i & 1) != 0) continue;
        snprintf(failure, sizeof failure, "%s sleeps for ever", scenario->called[i]);
    }
}

// One run. False: it failed.
static bool run_once(void) {
    memset(over, 0, sizeof over);
    memset(asleep, 0, sizeof asleep);
    memset(woken, 0, sizeof woken);
    locals_reset();
    memory_run_begin();
    plain_run_begin();
    system_run_begin();
    search_run_begin();
    redundant = false;
    phase = RUNNING;
    starting = true;
    for (unsigned i = 0; i < scenario->threads && failure[0] == '\0'; i++) {
        switch_prepare(i, thread_main);
        go_to(i);
    }
    starting = false;
    if (failure[0] == '\0') schedule(); // until no thread can take a step, or a failure
    if (failure[0] == '\0' && !redundant) {
        check_all_over();
        phase = CHECKING;
        switch_prepare(SWITCH_CHECK, check_main);
        if (failure[0] == '\0') go_to(SWITCH_CHECK);
    }
    phase = OUTSIDE;
    plain_undo();
    return failure[0] == '\0';
}

// The outcomes of the runs so far, as a set of hashes.
#define OUTCOMES_MAX 65536u
static struct {
    uint64_t hashes[OUTCOMES_MAX];
    unsigned count;
} outcomes;

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

// The values that each thread's steps saw, independent of the order between threads.
static uint64_t outcome_of_run(void) {
    uint64_t of[THREADS_MAX] = {0};
    for (unsigned i = 0; i < search_depth(); i++) {
        const struct event* event = &search_events()[i];
        if (event->step.access == ACCESS_ADD) continue;
        of[event->thread] = mixed(mixed(of[event->thread], event->seen), event->left);
    }
    uint64_t hash = 1;
    for (unsigned i = 0; i < THREADS_MAX; i++) hash = mixed(hash, of[i]);
    return hash | 1;
}

static void outcome_note(void) {
    uint64_t hash = outcome_of_run();
    unsigned slot = (unsigned)(hash >> 8) % OUTCOMES_MAX;
    for (; outcomes.hashes[slot] != 0; slot = (slot + 1) % OUTCOMES_MAX) {
        if (outcomes.hashes[slot] == hash) return;
    }
    if (++outcomes.count > OUTCOMES_MAX / 2) explore_fail("too many outcomes to compare");
    outcomes.hashes[slot] = hash;
}

struct counts {
    uint64_t schedules;
    uint64_t redundant;
    uint64_t steps;
};

// Executes all runs. Returns false if a run failed; search_events is then its schedule.
static bool explore(const struct explore_scenario* which, struct counts* counts) {
    scenario = which;
    *counts = (struct counts){0, 0, 0};
    catch_crashes();
    if (!prepared) {
        explore_local(&errno, sizeof errno);
        if (scenario->prepare != NULL) scenario->prepare();
        prepared = true;
    }
    search_begin(scenario);
    do {
        bool held = run_once();
        counts->steps += search_depth();
        if (redundant)
            counts->redundant++;
        else
            counts->schedules++;
        if (!held) return false;
        if (noting && !redundant) outcome_note();
    } while (search_next());
    return true;
}

static void print_counts(const struct counts* counts) {
    printf("explored %s: %lu schedules", scenario->name, (unsigned long)counts->schedules);
    if (scenario->preemptions == EXPLORE_ALL)
        printf(" (all, up to equivalence; %lu cut short)", (unsigned long)counts->redundant);
    else
        printf(" (all with at most %u preemptions)", scenario->preemptions);
    printf(", %lu steps, %u weak behaviours a run\n", (unsigned long)counts->steps, scenario->weak);
    fflush(stdout);
}

void explore_holds(const struct explore_scenario* which) {
    struct counts counts;
    bool held = explore(which, &counts);
    print_counts(&counts);
    if (held) return;
    report_schedule(STDERR_FILENO, scenario);
    check_fail(scenario->name, 0, "%s", failure);
}

void explore_finds(const struct explore_scenario* which, const char* words) {
    struct counts counts;
    const char* verbose = getenv("EXPLORE_VERBOSE");
    bool held = explore(which, &counts);
    if (held)
        check_fail(which->name, 0, "the seeded bug was not found in %lu schedules",
                   (unsigned long)counts.schedules);
    printf("explored %s: found in schedule %lu: %s\n", scenario->name,
           (unsigned long)counts.schedules, failure);
    fflush(stdout);
    if (verbose != NULL && *verbose == '1') report_schedule(STDOUT_FILENO, scenario);
    if (strstr(failure, words) == NULL) {
        report_schedule(STDERR_FILENO, scenario);
        check_fail(scenario->name, 0, "found, but not as \"%s\": %s", words, failure);
    }
}

unsigned explore_outcomes(const struct explore_scenario* which) {
    struct explore_scenario every = *which;
    struct counts counts;
    unsigned reduced;
    every.preemptions = EXPLORE_ALL - 1;
    noting = true;
    if (!explore(which, &counts)) check_fail(which->name, 0, "%s", failure);
    print_counts(&counts);
    reduced = outcomes.count;
    memset(&outcomes, 0, sizeof outcomes);
    if (!explore(&every, &counts)) check_fail(which->name, 0, "%s", failure);
    printf("explored %s: %lu schedules (every order), %u outcomes, as reduced\n", which->name,
           (unsigned long)counts.schedules, outcomes.count);
    fflush(stdout);
    if (reduced != outcomes.count)
        check_fail(which->name, 0, "%u outcomes reduced, %u in all", reduced, outcomes.count);
    return reduced;
}

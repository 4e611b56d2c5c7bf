/*
 * check_run.h: what check.c needs of the system to run tests. check_run.c has it for Linux,
 * ../windows/check_run.c for Windows.
 */
#ifndef KEEL_TESTS_CHECK_RUN_H
#define KEEL_TESTS_CHECK_RUN_H

#include "check.h"
#include <stdarg.h>

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77 };

struct outcome {
    enum { PASSED, FAILED, SKIPPED } kind;
    int status;
    long milliseconds;
    char text[8192]; // the test's stderr, truncated
};

// Called at the start of main. False: this program would not test what it should. Does not return
// in a process that check_run has started.
bool check_prepare(struct check_test* first);

// Runs a test in a process of its own. PASSED means that it ended as the test states.
void check_run(const struct check_test* test, struct outcome* outcome);
// Prints to stdout how a process with this outcome ended.
void check_print_end(const struct outcome* outcome);

// For the test's own process. Nothing of this allocates.
__attribute__((format(printf, 1, 0))) void check_print(const char* format, va_list arguments);
void check_print_error(int error); // errno, and what the system has besides
__attribute__((noreturn)) void check_exit(int status);

// Of check.c.
unsigned check_deadline_seconds(void);
bool check_is_set(const char* name); // a variable of the environment

#endif

/*
 * check.h: tests that may crash, hang or abort without ending the run.
 *
 *     TEST(name) { CHECK(2 + 2 == 4); }
 *     TEST_DIES(name, SIGABRT, "how a line of its stderr begins") { abort_with_that_line(); }
 *
 * Each test runs in a forked child with a deadline, so a crash is a result and every test starts
 * from the same state. The harness itself never calls malloc: what it tests may be the malloc of
 * its own process.
 *
 * A program linked with check.c takes any number of words; only tests whose name contains one of
 * them are run. It ends with `N passed, N failed, N skipped` and the exit status 0 when nothing
 * failed. Environment:
 *
 *     CHECK_SECONDS    deadline of one test, default 60
 *     CHECK_VERBOSE=1  names each test that passes, with its time
 *     CHECK_LEAVE_OUT  names of tests that are not run, with a blank before and after each
 *     CHECK_MALLOC_IN  the file name that must hold `malloc` (so that a test of Keel cannot quietly
 * test the C library) CI=true          a test skipped for want of something counts as failed
 */
#ifndef KEEL_TESTS_CHECK_H
#define KEEL_TESTS_CHECK_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct check_test {
    const char* name;
    void (*run)(void);
    int dies_of; // the signal that must end it, or 0: it must return
    const char*
        last_words; // with `dies_of`: how a line that it wrote to stderr must begin, or NULL
    struct check_test* next; // in the order of definition
};

void check_register(struct check_test* test);

// Ends the running test as failed. Callable from any thread of the test, and from a signal handler.
__attribute__((noreturn, format(printf, 3, 4))) void check_fail(const char* file, int line,
                                                                const char* format, ...);

// Ends the running test as skipped, with the reason.
__attribute__((noreturn, format(printf, 1, 2))) void check_skip(const char* format, ...);

// Waits for a child that the test has forked, and fails unless it ended with exit status 0.
void check_child(const char* file, int line, pid_t child);

#ifdef __cplusplus
}
#endif

#define CHECK_TEST_(id, signal_number, text)                                                       \
    static void id(void);                                                                          \
    static struct check_test id##_test = {#id, id, signal_number, text, NULL};                     \
    __attribute__((constructor)) static void id##_register(void) {                                 \
        check_register(&id##_test);                                                                \
    }                                                                                              \
    static void id(void)

#define TEST(id) CHECK_TEST_(id, 0, NULL)
#define TEST_DIES(id, signal_number, text) CHECK_TEST_(id, signal_number, text)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check_fail(__FILE__, __LINE__, "CHECK(%s)", #condition);                 \
    } while (0)

// As CHECK, and tells with which values: CHECK_WITH(p != NULL, "size %zu", size).
#define CHECK_WITH(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_fail(__FILE__, __LINE__, "CHECK(" #condition ") with " __VA_ARGS__);             \
    } while (0)

// For whole numbers of any type up to 64 bits.
#define CHECK_EQUAL(a, b)                                                                          \
    do {                                                                                           \
        long long check_a_ = (long long)(a), check_b_ = (long long)(b);                            \
        if (check_a_ != check_b_)                                                                  \
            check_fail(__FILE__, __LINE__, "%s == %s: %lld, not %lld", #a, #b, check_a_,           \
                       check_b_);                                                                  \
    } while (0)

#define CHECK_CHILD(child) check_child(__FILE__, __LINE__, child)
#define SKIP(...) check_skip(__VA_ARGS__)

#endif

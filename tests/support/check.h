/*
 * check.h: tests that may crash, hang or abort without ending the test run.
 *
 *     TEST(name) { CHECK(2 + 2 == 4); }
 *     TEST_DIES(name, SIGABRT, "beginning of a line on stderr") { abort_with_that_line(); }
 *
 * Each test runs in a forked child with a timeout. A crash is therefore a result, and every test
 * starts from the same state. The harness never calls malloc, since the test may be about the
 * malloc of its own process.
 *
 * The arguments of a program linked with check.c select tests: only tests whose name contains one
 * of them run. The program prints `N passed, N failed, N skipped` at the end; its exit status is 0
 * if no test failed. Environment:
 *
 *     CHECK_SECONDS    the timeout of one test, default 60
 *     CHECK_VERBOSE=1  print each test that passes, with its time
 *     CHECK_LEAVE_OUT  names of tests that are not run, with a blank before and after each
 *     CHECK_MALLOC_IN the name of the file that must contain `malloc`, so that a test of Keel
 *     cannot
 *                      test the C library by mistake
 *     CI=true          a skipped test counts as failed
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
    int expected_signal;          // the signal that must end the test; 0: it must return
    const char* expected_message; // with a signal: the beginning of a line on stderr, or NULL
    struct check_test* next;      // in the order of definition
};

void check_register(struct check_test* test);

// Ends the running test as failed. May be called from any thread of the test and from a signal
// handler.
__attribute__((noreturn, format(printf, 3, 4))) void check_fail(const char* file, int line,
                                                                const char* format, ...);

// Ends the running test as skipped, with a reason.
__attribute__((noreturn, format(printf, 1, 2))) void check_skip(const char* format, ...);

// Waits for a child that the test has forked; fails unless the child's exit status is 0.
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

// CHECK_AT_START(void_function): runs it before all constructors. musl has no such place:
// there it is the first constructor of the program.
#if defined(__GLIBC__)
#define CHECK_AT_START(function)                                                                   \
    __attribute__((section(".preinit_array"), used)) static void (*function##_first)(void) =       \
        function
#else
#define CHECK_AT_START(function)                                                                   \
    __attribute__((constructor(101))) static void function##_first(void) {                         \
        function();                                                                                \
    }                                                                                              \
    _Static_assert(1, "a semicolon follows")
#endif

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check_fail(__FILE__, __LINE__, "CHECK(%s)", #condition);                 \
    } while (0)

// Like CHECK, and prints values: CHECK_WITH(p != NULL, "size %zu", size).
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

/* Takes the place of the header of the same name in jemalloc's source, so that its tests of the
 * standard functions can be compiled for any malloc. Each test prints its verdict; the program's
 * status is 1 if one has failed. */
#ifndef KEEL_TESTS_OTHERS_JEMALLOC_TEST_H
#define KEEL_TESTS_OTHERS_JEMALLOC_TEST_H

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LG_SIZEOF_PTR 3
#define SIZE_T_MAX SIZE_MAX
#define BUFERROR_BUF 64
#define TEST_MALLOC_SIZE malloc_usable_size
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN

static int jemalloc_failures;

#define test_fail(...)                                                                             \
    do {                                                                                           \
        jemalloc_failures++;                                                                       \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
    } while (0)
#define expect_true(condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition)) test_fail(__VA_ARGS__);                                                  \
    } while (0)
#define expect_false(condition, ...) expect_true(!(condition), __VA_ARGS__)
#define expect_d_eq(a, b, ...) expect_true((a) == (b), __VA_ARGS__)
#define expect_d_ne(a, b, ...) expect_true((a) != (b), __VA_ARGS__)
#define expect_ptr_null(pointer, ...) expect_true((pointer) == NULL, __VA_ARGS__)
#define expect_ptr_not_null(pointer, ...) expect_true((pointer) != NULL, __VA_ARGS__)
#undef assert
#define assert(condition) expect_true(condition, #condition)

#define TEST_BEGIN(name)                                                                           \
    static void name(void) {                                                                       \
        const char* name_of_test = #name;                                                          \
        int failures_before = jemalloc_failures;
#define TEST_END                                                                                   \
    printf("verdict: %s %s\n", name_of_test, jemalloc_failures > failures_before ? "FAIL" : "ok"); \
    }

typedef void jemalloc_test_function(void);
static inline int jemalloc_run(jemalloc_test_function** tests) {
    for (; *tests; tests++) (*tests)();
    return jemalloc_failures > 0;
}
#ifdef __cplusplus
#define test(...)                                                                                  \
    [] {                                                                                           \
        jemalloc_test_function* tests[] = {__VA_ARGS__, nullptr};                                  \
        return jemalloc_run(tests);                                                                \
    }()
#else
#define test(...) jemalloc_run((jemalloc_test_function*[]){__VA_ARGS__, NULL})
#endif

static inline void set_errno(int number) {
    errno = number;
}
static inline int get_errno(void) {
    return errno;
}
static inline void buferror(int number, char* buffer, size_t size) {
    snprintf(buffer, size, "%s", strerror(number));
}

// The tests ask for the largest size of all; every malloc's is PTRDIFF_MAX at most.
static inline int mallctl(const char* name, void* old, size_t* old_size, void* in, size_t in_size) {
    (void)name, (void)old_size, (void)in, (void)in_size;
    if (old) *(unsigned*)old = 1;
    return 0;
}
static inline int mallctlnametomib(const char* name, size_t* mib, size_t* length) {
    (void)name, (void)mib, (void)length;
    return 0;
}
static inline int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_size,
                               void* in, size_t in_size) {
    (void)mib, (void)length, (void)old_size, (void)in, (void)in_size;
    *(size_t*)old = PTRDIFF_MAX;
    return 0;
}

#endif

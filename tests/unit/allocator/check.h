// A check that says what failed and where, and counts on nothing but stderr.
#ifndef KEEL_TESTS_ALLOCATOR_CHECK_H
#define KEEL_TESTS_ALLOCATOR_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif

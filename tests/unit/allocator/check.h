// A check that says what failed and where, and counts on nothing but stderr.
#ifndef KEEL_TESTS_ALLOCATOR_CHECK_H
#define KEEL_TESTS_ALLOCATOR_CHECK_H

#include "base/counters.h"
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// In a KEEL_COUNT build: no call so far has done more than the design allows.
static inline void check_work_bounds(void) {
    for (unsigned i = 0; i < WORK_COUNT; i++) {
        uint64_t worst = atomic_get(&counters.worst[i]);
        if (worst <= work_bound((enum work)i)) continue;
        fprintf(stderr, "%s: %lu, above its bound\n", work_name((enum work)i),
                (unsigned long)worst);
        exit(1);
    }
}

#endif

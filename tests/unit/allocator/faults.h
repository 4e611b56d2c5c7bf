// Page faults of the process so far that needed no reading from a disk.
#ifndef KEEL_TESTS_ALLOCATOR_FAULTS_H
#define KEEL_TESTS_ALLOCATOR_FAULTS_H

#include "check.h"
#include <sys/resource.h>

static inline long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

#endif

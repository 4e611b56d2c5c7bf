// The interface between the replaced base/atomic.h and the explorer.
#ifndef KEEL_TESTS_VERBS_H
#define KEEL_TESTS_VERBS_H

#include <stdbool.h>
#include <stdint.h>

enum verb_order { RELAXED = 0, ACQUIRE = 1, RELEASE = 2, ACQUIRE_RELEASE = 3, ORDERED = 7 };
enum verb_update { UPDATE_SWAP, UPDATE_ADD, UPDATE_OR, UPDATE_AND };

// One place in the code under test that uses an atomic operation.
struct verb_site {
    const char* file;
    const char* function;
    const char* verb;
    const char* what; // the expression of the address, as in the source
    int line;
    unsigned char looked_up; // whether `broken` has been set
    unsigned char broken;    // enum explore_break
};

uint64_t verb_load(const void* p, unsigned bytes, enum verb_order order, struct verb_site* site);
void verb_store(void* p, unsigned bytes, uint64_t value, enum verb_order order,
                struct verb_site* site);
// The value before.
uint64_t verb_update(void* p, unsigned bytes, enum verb_update how, uint64_t operand,
                     enum verb_order order, struct verb_site* site);
bool verb_try(void* p, unsigned bytes, uint64_t* expected, uint64_t desired, enum verb_order order,
              bool may_fail_spuriously, struct verb_site* site);

#endif

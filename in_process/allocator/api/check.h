// Verifies the allocator's own data, where it is compiled with assertions (base/panic.h).
#ifndef KEEL_ALLOCATOR_API_CHECK_H
#define KEEL_ALLOCATOR_API_CHECK_H

#include <stdbool.h>

// True if the invariants of every module hold; always true without KEEL_CHECKS. Only while no other
// thread, nor the keeper, is inside of the allocator. Linear in the pages and slices.
bool allocator_check(void);

#endif

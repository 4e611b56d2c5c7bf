// Arithmetic on sizes that detects overflow. False: the result does not fit.
#ifndef KEEL_BASE_CHECKED_H
#define KEEL_BASE_CHECKED_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// No object is larger: the difference of two pointers into it must fit ptrdiff_t.
#define KEEL_SIZE_MAX ((size_t)PTRDIFF_MAX)

KEEL_INLINE bool size_multiply(size_t a, size_t b, size_t* product) {
    return !__builtin_mul_overflow(a, b, product);
}
KEEL_INLINE bool size_add(size_t a, size_t b, size_t* sum) {
    return !__builtin_add_overflow(a, b, sum);
}

#endif

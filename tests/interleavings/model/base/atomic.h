// Replaces in_process/base/atomic.h for the explorer of interleavings: the same operations with the
// same orderings, but each is a step that the explorer schedules. The code under test is compiled
// without changes; the compiler finds this header first.
#ifndef KEEL_BASE_ATOMIC_H
#define KEEL_BASE_ATOMIC_H

#include "base/attributes.h"
#include "verbs.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t atomic_word;
typedef uint64_t atomic_bits;
typedef int64_t atomic_signed;
typedef uint32_t atomic_state;
typedef uint8_t atomic_small;

#define VERB_SITE_(verb, what)                                                                     \
    ({                                                                                             \
        static struct verb_site site_ = {__FILE__, __func__, verb, what, __LINE__, 0, 0};          \
        &site_;                                                                                    \
    })
#define VERB_VALUE_(p, call) ((__typeof__((*(p)) + 0))(call))
#define VERB_LOAD_(p, order, verb)                                                                 \
    VERB_VALUE_(p, verb_load((p), sizeof *(p), order, VERB_SITE_(verb, #p)))
#define VERB_STORE_(p, v, order, verb)                                                             \
    verb_store((p), sizeof *(p), (uint64_t)(v), order, VERB_SITE_(verb, #p))
#define VERB_UPDATE_(p, v, how, order, verb)                                                       \
    VERB_VALUE_(p, verb_update((p), sizeof *(p), how, (uint64_t)(v), order, VERB_SITE_(verb, #p)))

#define atomic_get(p) VERB_LOAD_(p, RELAXED, "get")
#define atomic_get_acquire(p) VERB_LOAD_(p, ACQUIRE, "get_acquire")
#define atomic_get_ordered(p) VERB_LOAD_(p, ORDERED, "get_ordered")
#define atomic_set(p, v) VERB_STORE_(p, v, RELAXED, "set")
#define atomic_set_release(p, v) VERB_STORE_(p, v, RELEASE, "set_release")
#define atomic_swap(p, v) VERB_UPDATE_(p, v, UPDATE_SWAP, ACQUIRE_RELEASE, "swap")
#define atomic_add(p, v) VERB_UPDATE_(p, v, UPDATE_ADD, RELAXED, "add")
#define atomic_sub(p, v) VERB_UPDATE_(p, -(uint64_t)(v), UPDATE_ADD, RELAXED, "sub")
#define atomic_sub_release(p, v) VERB_UPDATE_(p, -(uint64_t)(v), UPDATE_ADD, RELEASE, "sub_release")
#define atomic_or_ordered(p, v) VERB_UPDATE_(p, v, UPDATE_OR, ORDERED, "or_ordered")
#define atomic_and_ordered(p, v) VERB_UPDATE_(p, v, UPDATE_AND, ORDERED, "and_ordered")

#define VERB_TRY_(type, p, expected, desired, order, spurious, verb)                               \
    ({                                                                                             \
        type* expected_ = (expected);                                                              \
        uint64_t seen_ = *expected_;                                                               \
        bool done_ =                                                                               \
            verb_try((p), sizeof(type), &seen_, (desired), order, spurious, VERB_SITE_(verb, #p)); \
        if (!done_) *expected_ = (type)seen_;                                                      \
        done_;                                                                                     \
    })
#define atomic_try_bits(p, e, d) VERB_TRY_(uint64_t, p, e, d, ORDERED, true, "try_bits")
#define atomic_try_ordered(p, e, d)                                                                \
    VERB_TRY_(__typeof__(*(e)), p, e, d, ORDERED, false, "try_ordered")
#define atomic_try_word(p, e, d) VERB_TRY_(uintptr_t, p, e, d, ACQUIRE_RELEASE, false, "try_word")
#define atomic_try_small(p, e, d) VERB_TRY_(uint8_t, p, e, d, ACQUIRE_RELEASE, false, "try_small")
#define atomic_try_state(p, e, d) VERB_TRY_(uint32_t, p, e, d, ACQUIRE, false, "try_state")

#define atomic_order_for_signals() ((void)0)

// One writer; concurrent readers make no decision that depends on the value.
#define atomic_bump(p, by) ((void)VERB_UPDATE_(p, by, UPDATE_ADD, RELAXED, "bump"))

#endif

// The only file that includes <stdatomic.h>. All lock-free code of Keel uses these few operations,
// so that a test can replace this header by one that explores interleavings.
//
// The name of an operation states its ordering. Plain `get` and `set` are relaxed, which is enough
// for fields that only their owner writes.
#ifndef KEEL_BASE_ATOMIC_H
#define KEEL_BASE_ATOMIC_H

#include "base/attributes.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef _Atomic(uintptr_t) atomic_word; // a pointer with flags, or a count
typedef _Atomic(uint64_t) atomic_bits;  // 64 flags
typedef _Atomic(int64_t) atomic_signed; // a count that several threads add to and subtract from
typedef _Atomic(uint8_t) atomic_small;  // one of a few values
typedef _Atomic(uint32_t) atomic_state; // a lock word or a small state

_Static_assert(sizeof(atomic_word) == sizeof(uintptr_t), "atomics contain no lock");
_Static_assert(sizeof(atomic_bits) == 8, "atomics contain no lock");

#if defined(__s390x__) || defined(__powerpc64__)
// For x = atomic_swap(p, x), GCC 12 loads the old value into the register of the new one and then
// stores the old value. So here the new one stays in use.
#define ATOMIC_EXCHANGE(p, v, order)                                                               \
    __extension__({                                                                                \
        __typeof__(atomic_get(p)) atomic_given = (v);                                              \
        __auto_type atomic_before = atomic_exchange_explicit((p), atomic_given, order);            \
        __asm__ volatile("" : : "r"(atomic_given));                                                \
        atomic_before;                                                                             \
    })
#else
#define ATOMIC_EXCHANGE(p, v, order) atomic_exchange_explicit((p), (v), order)
#endif

#define atomic_get(p) atomic_load_explicit((p), memory_order_relaxed)
#define atomic_get_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define atomic_get_ordered(p) atomic_load_explicit((p), memory_order_seq_cst)
#define atomic_set(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define atomic_set_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define atomic_swap(p, v) ATOMIC_EXCHANGE((p), (v), memory_order_acq_rel)
#define atomic_add(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define atomic_sub(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define atomic_add_release(p, v) atomic_fetch_add_explicit((p), (v), memory_order_release)
#define atomic_sub_release(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_release)
// Ordered among all ordered operations of all threads. The "clear, then check again" protocols rely
// on that.
#define atomic_or_ordered(p, v) atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)
#define atomic_and_ordered(p, v) atomic_fetch_and_explicit((p), (v), memory_order_seq_cst)
#define atomic_set_ordered(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)
#define atomic_swap_ordered(p, v) ATOMIC_EXCHANGE((p), (v), memory_order_seq_cst)
#define atomic_add_ordered(p, v) atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define atomic_sub_ordered(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_seq_cst)
// One try, which never fails spuriously; on failure `*expected` holds what was seen.
#define atomic_try_ordered(p, expected, desired)                                                   \
    atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_seq_cst,      \
                                            memory_order_relaxed)

// Orders accesses of this thread against those of its own signal handlers, for the compiler only.
#define atomic_order_for_signals() atomic_signal_fence(memory_order_seq_cst)

// One try; on failure `*expected` holds what was seen. May fail spuriously.
KEEL_INLINE bool atomic_try_bits(atomic_bits* p, uint64_t* expected, uint64_t desired) {
    return atomic_compare_exchange_weak_explicit(p, expected, desired, memory_order_seq_cst,
                                                 memory_order_relaxed);
}
KEEL_INLINE bool atomic_try_word(atomic_word* p, uintptr_t* expected, uintptr_t desired) {
    return atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_acq_rel,
                                                   memory_order_acquire);
}
KEEL_INLINE bool atomic_try_state(atomic_state* p, uint32_t* expected, uint32_t desired) {
    return atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_acquire,
                                                   memory_order_relaxed);
}

KEEL_INLINE bool atomic_try_small(atomic_small* p, uint8_t* expected, uint8_t desired) {
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_1)
    return atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_acq_rel,
                                                   memory_order_relaxed);
#else
    // The processor has this operation only for a word (riscv64): that which contains the byte.
    const uintptr_t at = (uintptr_t)p % sizeof(uint32_t);
    atomic_state* word = (atomic_state*)((uintptr_t)p - at);
    uint32_t seen = atomic_get(word), changed;
    do {
        changed = seen;
        if (((uint8_t*)&seen)[at] != *expected) {
            *expected = ((uint8_t*)&seen)[at];
            return false;
        }
        ((uint8_t*)&changed)[at] = desired;
    } while (!atomic_compare_exchange_weak_explicit(word, &seen, changed, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
#endif
}

// A counter with one writer (its owner) and any number of readers: no read-modify-write needed.
KEEL_INLINE void atomic_bump(atomic_bits* p, uint64_t by) {
    atomic_set(p, atomic_get(p) + by);
}

#endif

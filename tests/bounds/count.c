#include "count.h"

#include <linux/futex.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>

enum { LOCKS = 64, NESTED = 8 };

struct held {
    const struct os_lock* lock;
    uint64_t since; // steps
};

static __thread struct cost counted;
static __thread struct held held[NESTED];
static __thread unsigned held_count;
static __thread const struct os_lock* last_lock;
static __thread bool holds_ignored;
static struct {
    _Atomic(const struct os_lock*) lock;
    _Atomic uint64_t steps;
} longest[LOCKS];

void (*count_on_wait)(void);

void __sanitizer_cov_trace_pc(void); // called by the compiled code
void __sanitizer_cov_trace_pc(void) {
    counted.steps++;
}

void count_begin(void) {
    counted = (struct cost){0};
    held_count = 0;
}
struct cost count_end(void) {
    return counted;
}

// --- Locks ---------------------------------------------------------------------------------------

static void note_hold(const struct os_lock* lock, uint64_t steps) {
    for (unsigned i = 0; i < LOCKS; i++) {
        const struct os_lock* here = longest[i].lock;
        if (here == NULL &&
            __atomic_compare_exchange_n((void**)&longest[i].lock, (void**)&here, (void*)lock, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            here = lock;
        if (here != lock) continue;
        uint64_t before = longest[i].steps;
        while (before < steps &&
               !__atomic_compare_exchange_n((uint64_t*)&longest[i].steps, &before, steps, 0,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        }
        return;
    }
    abort(); // more locks than expected
}

void count_lock_taken(const struct os_lock* lock) {
    last_lock = lock;
    if (holds_ignored) return;
    if (held_count < NESTED) held[held_count] = (struct held){lock, counted.steps};
    held_count++;
}

void count_lock_released(const struct os_lock* lock) {
    if (holds_ignored) return;
    for (unsigned i = held_count < NESTED ? held_count : NESTED; i-- > 0;) {
        if (held[i].lock != lock) continue;
        note_hold(lock, counted.steps - held[i].since);
        held[i] = held[--held_count];
        return;
    }
}

void count_holds(bool counts) {
    holds_ignored = !counts;
}
uint64_t count_longest_hold(const struct os_lock* lock) {
    for (unsigned i = 0; i < LOCKS; i++) {
        if (longest[i].lock == lock) return longest[i].steps;
    }
    return 0;
}
const struct os_lock* count_last_lock(void) {
    return last_lock;
}

// --- System calls: the linker directs the allocator's calls here (--wrap) ------------------------

intptr_t __real_kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               uintptr_t e, uintptr_t f);
intptr_t __wrap_kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               uintptr_t e, uintptr_t f);
intptr_t __wrap_kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               uintptr_t e, uintptr_t f) {
    // A wait for a lock has no time limit; the keeper's sleep has one.
    if (number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT && d == 0) {
        counted.waits++;
        if (count_on_wait != NULL) count_on_wait();
    } else {
        counted.calls++;
    }
    return __real_kl_system_call(number, a, b, c, d, e, f);
}

#include "count.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>

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

#define WRAPPED(result, name, parameters, arguments)                                               \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters {                                                              \
        counted.calls++;                                                                           \
        return __real_##name arguments;                                                            \
    }
WRAPPED(void*, mmap, (void* at, size_t bytes, int protection, int flags, int file, off_t offset),
        (at, bytes, protection, flags, file, offset))
WRAPPED(int, munmap, (void* at, size_t bytes), (at, bytes))
WRAPPED(int, madvise, (void* at, size_t bytes, int advice), (at, bytes, advice))
WRAPPED(int, mprotect, (void* at, size_t bytes, int protection), (at, bytes, protection))
WRAPPED(int, mincore, (void* at, size_t bytes, unsigned char* pages), (at, bytes, pages))
WRAPPED(int, getrlimit, (int resource, struct rlimit* limit), (resource, limit))
WRAPPED(ssize_t, read, (int file, void* buffer, size_t bytes), (file, buffer, bytes))
WRAPPED(ssize_t, write, (int file, const void* buffer, size_t bytes), (file, buffer, bytes))
WRAPPED(int, close, (int file), (file))

void* __real_mremap(void* at, size_t old_bytes, size_t bytes, int flags, ...);
void* __wrap_mremap(void* at, size_t old_bytes, size_t bytes, int flags, ...);
void* __wrap_mremap(void* at, size_t old_bytes, size_t bytes, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void* target = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : NULL;
    va_end(more);
    counted.calls++;
    return __real_mremap(at, old_bytes, bytes, flags, target);
}

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
    counted.calls++;
    return __real_open(path, flags);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long a[6];
    va_list more;
    va_start(more, number);
    for (unsigned i = 0; i < 6; i++) a[i] = va_arg(more, long);
    va_end(more);
    // A wait for a lock has no time limit; the keeper's sleep has one.
    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && a[3] == 0) {
        counted.waits++;
        if (count_on_wait != NULL) count_on_wait();
    } else {
        counted.calls++;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

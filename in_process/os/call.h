// System calls. Every call that Keel makes goes through one function with an instruction of its
// own, not through the C library:
//
// - Other libraries that are preloaded replace the C library's functions. Their replacements may
//   allocate, need thread-local state, or call each other at start.
// - The C library's functions are cancellation points, set errno, and may be no system calls at all
//   (getrandom and clock_gettime are code of the vDSO).
//
// docs/reference/system-calls.md lists the calls, and the functions of the C library that remain.
#ifndef KEEL_OS_CALL_H
#define KEEL_OS_CALL_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

// Makes the call. Returns the kernel's result: from -4095 to -1 it is an error number, negated.
// Sets no errno. Exported for programs that observe an allocator's system calls by a jump over the
// first bytes of this function, as `keel compare` does; not to be called by others.
intptr_t kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                        uintptr_t e, uintptr_t f);

// os_call(NUMBER, ARGUMENTS...): with zeros for the arguments that are left out.
#define os_call(...) OS_CALL_PADDED(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define OS_CALL_PADDED(number, a, b, c, d, e, f, ...)                                              \
    kl_system_call(number, (uintptr_t)(a), (uintptr_t)(b), (uintptr_t)(c), (uintptr_t)(d),         \
                   (uintptr_t)(e), (uintptr_t)(f))

// Of the kernel's headers, which some C libraries come without.
enum {
    OS_FUTEX_WAIT = 128, // FUTEX_WAIT_PRIVATE
    OS_FUTEX_WAKE = 129, // FUTEX_WAKE_PRIVATE
};

// The processor time of the calling thread in µs; 0 if there is no such clock. A system call.
uint64_t linux_thread_us(void);

KEEL_INLINE bool os_call_failed(intptr_t result) {
    return (uintptr_t)result >= (uintptr_t)-4095;
}

#endif

#include "os/call.h"
#include "os/confined.h"
#include <errno.h>
#include <unistd.h>

atomic_state os_confinement;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BY_INSTRUCTION 0
#else
#define BY_INSTRUCTION 1
#endif

#if BY_INSTRUCTION && defined(__x86_64__)

KEEL_EXPORT KEEL_NOINLINE intptr_t kl_system_call(intptr_t number, uintptr_t a, uintptr_t b,
                                                  uintptr_t c, uintptr_t d, uintptr_t e,
                                                  uintptr_t f) {
    register uintptr_t fourth __asm__("r10") = d;
    register uintptr_t fifth __asm__("r8") = e;
    register uintptr_t sixth __asm__("r9") = f;
    intptr_t result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

#elif BY_INSTRUCTION && defined(__aarch64__)

KEEL_EXPORT KEEL_NOINLINE intptr_t kl_system_call(intptr_t number, uintptr_t a, uintptr_t b,
                                                  uintptr_t c, uintptr_t d, uintptr_t e,
                                                  uintptr_t f) {
    register intptr_t which __asm__("x8") = number;
    register uintptr_t result __asm__("x0") = a;
    register uintptr_t second __asm__("x1") = b;
    register uintptr_t third __asm__("x2") = c;
    register uintptr_t fourth __asm__("x3") = d;
    register uintptr_t fifth __asm__("x4") = e;
    register uintptr_t sixth __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(result)
                     : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return (intptr_t)result;
}

#else
#include <sys/mman.h>

// By the C library's functions: a sanitizer, which keeps a shadow of mapped memory, observes them,
// and the call itself may take its arguments in another way (mmap of s390x takes their address).
static intptr_t call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                     uintptr_t e, uintptr_t f) {
    if (number == SYS_mmap) return (intptr_t)mmap((void*)a, b, (int)c, (int)d, (int)e, (off_t)f);
    if (number == SYS_munmap) return munmap((void*)a, b);
    return syscall(number, a, b, c, d, e, f);
}

KEEL_EXPORT intptr_t kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c,
                                    uintptr_t d, uintptr_t e, uintptr_t f) {
    int saved = errno;
    intptr_t result = call(number, a, b, c, d, e, f);
    if (result == -1) result = -errno;
    errno = saved;
    return result;
}

#endif

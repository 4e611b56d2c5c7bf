// For programs that define functions such as mmap, in order to observe or to refuse what Keel asks
// of the system: the linker directs Keel's system calls here (--wrap), and here they become calls
// of the C library's functions.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

intptr_t __wrap_kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               uintptr_t e, uintptr_t f);

static intptr_t call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                     uintptr_t e, uintptr_t f) {
    switch (number) {
    case SYS_mmap:
        return (intptr_t)mmap((void*)a, b, (int)c, (int)d, (int)e, (off_t)f);
    case SYS_munmap:
        return munmap((void*)a, b);
    case SYS_mremap:
        return (intptr_t)mremap((void*)a, b, c, (int)d, (void*)e);
    case SYS_madvise:
        return madvise((void*)a, b, (int)c);
    case SYS_mprotect:
        return mprotect((void*)a, b, (int)c);
    case SYS_mincore:
        return mincore((void*)a, b, (unsigned char*)c);
    case SYS_openat:
        return open((const char*)b, (int)c);
    default:
        return syscall(number, a, b, c, d, e, f);
    }
}

intptr_t __wrap_kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               uintptr_t e, uintptr_t f) {
    int saved = errno;
    intptr_t result = call(number, a, b, c, d, e, f);
    if (result == -1) result = -errno;
    errno = saved;
    return result;
}

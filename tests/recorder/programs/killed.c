/* A library to preload into the process that attaches: kills it with SIGKILL before its request
 * number KILLED_AT to trace or change another process, and KILLED_AFTER_US later. With
 * KILLED_SLOWLY its files stay open for 3 s longer, as if its other threads ended late. */
#include "common.h"
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static long asked(long number, long a, long b, long c, long d, long e, long f) {
    static int count;
    const char* at = getenv("KILLED_AT");
    const char* after = getenv("KILLED_AFTER_US");
    if (at != NULL && ++count == atoi(at)) {
        if (after != NULL) usleep((useconds_t)atoi(after));
        if (getenv("KILLED_SLOWLY") != NULL && fork() == 0) {
            sleep(3);
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    }
    return syscall(number, a, b, c, d, e, f);
}

long ptrace(int request, ...) {
    va_list rest;
    va_start(rest, request);
    long process = va_arg(rest, int);
    long address = va_arg(rest, long);
    long data = va_arg(rest, long);
    va_end(rest);
    return asked(SYS_ptrace, request, process, address, data, 0, 0);
}

ssize_t pwrite64(int file, const void* bytes, size_t length, off_t at) {
    return asked(SYS_pwrite64, file, (long)bytes, (long)length, at, 0, 0);
}

ssize_t process_vm_writev(pid_t process, const struct iovec* from, unsigned long from_count,
                          const struct iovec* to, unsigned long to_count, unsigned long flags) {
    return asked(SYS_process_vm_writev, process, (long)from, (long)from_count, (long)to,
                 (long)to_count, (long)flags);
}

// A system without MADV_GUARD_INSTALL, for the program that links this file: libkeel's calls come
// here. With GUARDED_IGNORES=1, a system that accepts the advice and does nothing, as some
// emulators do.
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int madvise(void* start, size_t bytes, int advice) {
    if (advice != 102 && advice != 103) return (int)syscall(SYS_madvise, start, bytes, advice);
    if (getenv("GUARDED_IGNORES") != NULL) return 0;
    errno = EINVAL;
    return -1;
}

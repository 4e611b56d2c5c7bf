/*
 * posix.h: what the suites use of POSIX and Linux, for Windows. A test that needs what Windows does
 * not have (fork, limits of the process) is skipped at the first such call.
 */
#ifndef KEEL_TESTS_WINDOWS_POSIX_H
#define KEEL_TESTS_WINDOWS_POSIX_H

#include "check.h"
#include <direct.h>
#include <io.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

/* Words of 16-bit times. */
#undef near
#undef far
#undef small
#undef FAR
#define FAR
#define O_CLOEXEC 0
#define POSIX_INLINE static inline __attribute__((unused))

/* ---- memory ---- */
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 0
#define MAP_ANONYMOUS 0
#define MAP_NORESERVE 0
#define MAP_FIXED_NOREPLACE 0
#define MAP_FAILED NULL

POSIX_INLINE void* mmap(void* start, size_t bytes, int protection, int flags, int file, long at) {
    (void)flags, (void)file, (void)at;
    DWORD how = MEM_RESERVE | (protection == PROT_NONE ? 0 : MEM_COMMIT);
    void* place =
        VirtualAlloc(start, bytes, how, protection == PROT_NONE ? PAGE_NOACCESS : PAGE_READWRITE);
    if (place == NULL && start != NULL) /* a hint */
        place = VirtualAlloc(NULL, bytes, how,
                             protection == PROT_NONE ? PAGE_NOACCESS : PAGE_READWRITE);
    return place;
}
POSIX_INLINE int munmap(void* start, size_t bytes) {
    (void)bytes;
    return VirtualFree(start, 0, MEM_RELEASE) ? 0 : -1;
}

enum { _SC_PAGESIZE, _SC_PHYS_PAGES, _SC_NPROCESSORS_CONF };
POSIX_INLINE long sysconf(int name) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    GlobalMemoryStatusEx(&memory);
    if (name == _SC_PAGESIZE) return (long)system.dwPageSize;
    if (name == _SC_PHYS_PAGES) return (long)(memory.ullTotalPhys / system.dwPageSize);
    return (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}

/* ---- processes ---- */
POSIX_INLINE pid_t fork(void) {
    check_skip("Windows has no fork");
}
POSIX_INLINE int pipe(int* ends) {
    (void)ends;
    check_skip("Windows has no fork, for which the test makes a pipe");
}
POSIX_INLINE void alarm(unsigned seconds) {
    (void)seconds;
}
#define execl(...) (-1)
POSIX_INLINE char* realpath(const char* path, char* resolved) {
    return _fullpath(resolved, path, MAX_PATH);
}
#define sigjmp_buf jmp_buf
#define sigsetjmp(place, mask) setjmp(place)
#define siglongjmp longjmp

/* ---- files ---- */
#define mkdir(path, mode) _mkdir(path)
POSIX_INLINE char* mkdtemp(char* path) {
    return _mktemp(path) != NULL && _mkdir(path) == 0 ? path : NULL;
}
#define WIFSIGNALED(status) ((status) == 3)
#define WTERMSIG(status) ((status) == 3 ? SIGABRT : 0)
#define WIFEXITED(status) ((status) != 3)
#define WEXITSTATUS(status) (status)
POSIX_INLINE pid_t waitpid(pid_t child, int* status, int options) {
    (void)child, (void)status, (void)options;
    return -1;
}
#define program_invocation_short_name "suite"
POSIX_INLINE int setenv(const char* name, const char* value, int replace) {
    (void)replace;
    return _putenv_s(name, value);
}

/* ---- limits ---- */
struct rlimit {
    size_t rlim_cur, rlim_max;
};
enum { RLIMIT_AS, RLIMIT_DATA };
#define RLIM_INFINITY SIZE_MAX
POSIX_INLINE int getrlimit(int resource, struct rlimit* limit) {
    (void)resource;
    limit->rlim_cur = limit->rlim_max = RLIM_INFINITY;
    return 0;
}
POSIX_INLINE int setrlimit(int resource, const struct rlimit* limit) {
    (void)resource, (void)limit;
    check_skip("Windows has no limit on the address space of a process");
}
struct sysinfo {
    unsigned long long totalram, freeram, totalswap, freeswap;
    unsigned mem_unit;
};
POSIX_INLINE int sysinfo(struct sysinfo* info) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    GlobalMemoryStatusEx(&memory);
    *info = (struct sysinfo){memory.ullTotalPhys, memory.ullAvailPhys, memory.ullTotalPageFile,
                             memory.ullAvailPageFile, 1};
    return 0;
}

/* ---- threads ---- */
#define SYS_gettid 0
POSIX_INLINE long syscall(int number) {
    (void)number;
    return (long)GetCurrentThreadId();
}

#endif

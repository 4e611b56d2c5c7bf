#include "system.h"

#include "base/atomic.h"
#include "linux.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// clang-format off
// ---- Time and threads ---------------------------------------------------------------------------
// clang-format on

uint64_t system_raw_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

size_t linux_read_file(const char* path, char* text, size_t bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, text, bytes - 1);
    text[got > 0 ? got : 0] = '\0';
    close(file);
    return got > 0 ? (size_t)got : 0;
}

enum kl_clock system_clock(void) {
#if defined(__aarch64__)
    return KL_CLOCK_TSC;
#else
    char text[4096];
    if (linux_read_file("/proc/cpuinfo", text, sizeof text) == 0) return KL_CLOCK_MONOTONIC;
    bool even = strstr(text, " constant_tsc") != NULL && strstr(text, " nonstop_tsc") != NULL;
    return even ? KL_CLOCK_TSC : KL_CLOCK_MONOTONIC;
#endif
}

void system_sleep_us(unsigned microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = (long)microseconds * 1000}, NULL);
}

void system_yield(void) {
    sched_yield();
}

uint32_t system_process(void) {
    return (uint32_t)getpid();
}

uint64_t system_thread(void) {
    return (uint64_t)syscall(SYS_gettid);
}

void system_thread_name(char name[static 16]) {
    prctl(PR_GET_NAME, name);
}

static pthread_key_t thread_key;
static bool thread_key_valid;

void system_watch_threads(void (*ended)(void* value)) {
    thread_key_valid = pthread_key_create(&thread_key, ended) == 0;
}

// May call calloc.
void system_watch_thread(void* value) {
    if (thread_key_valid) pthread_setspecific(thread_key, value);
}

void system_on_fork(void (*in_child)(void)) {
    pthread_atfork(NULL, NULL, in_child);
}

void system_wipe_on_fork(void* pages, size_t bytes) {
    madvise(pages, bytes, MADV_WIPEONFORK);
}

struct system_state system_begin(void) {
    struct system_state state = {.saved_errno = errno};
    int cancelling = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    state.saved = (uint32_t)cancelling;
    return state;
}

void system_end(struct system_state state) {
    pthread_setcancelstate((int)state.saved, NULL);
    errno = state.saved_errno;
}

bool system_has_threads(void) {
    return true;
}

// Older kernels do not support it.
void system_touch(void* pages, size_t bytes) {
    madvise(pages, bytes, MADV_POPULATE_WRITE);
}

// clang-format off
// ---- Description of the process -----------------------------------------------------------------
// clang-format on

// A container has a namespace of its own, in which other processes have the same numbers.
static uint64_t pid_namespace(void) {
    char link[32] = ""; // pid:[4026531836]
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    const char* inode = length > 0 ? strchr(link, '[') : NULL;
    return inode != NULL ? strtoull(inode + 1, NULL, 10) : 0;
}

static bool file_status(const char* path, struct stat* status) {
    int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) return false;
    bool known = syscall(SYS_fstat, file, status) == 0;
    close(file);
    return known;
}

// The path by which the program was executed, which may be a link to it. False: it does not lead to
// the program, as that of a script or of a descriptor.
static bool called_path(char* path, size_t bytes) {
    const char* called = (const char*)(uintptr_t)getauxval(AT_EXECFN);
    if (called == NULL || strncmp(called, "/dev/fd/", strlen("/dev/fd/")) == 0) return false;
    if (strncmp(called, "/proc/", strlen("/proc/")) == 0) return false; // self/exe
    struct stat program;
    struct stat found;
    if (!file_status("/proc/self/exe", &program) || !file_status(called, &found)) return false;
    if (found.st_dev != program.st_dev || found.st_ino != program.st_ino) return false;
    char folder[PATH_MAX] = "";
    if (called[0] != '/' && getcwd(folder, sizeof folder) == NULL) return false;
    if (strncmp(called, "./", 2) == 0) called += 2;
    const char* slash = called[0] == '/' ? "" : "/";
    int length = snprintf(path, bytes, "%s%s%s", folder, slash, called);
    return length > 0 && (size_t)length < bytes;
}

void system_describe(struct kl_spool* spool) {
    spool->pid = (uint32_t)getpid();
    spool->pid_namespace = pid_namespace();
    if (!called_path(spool->program, sizeof spool->program)) {
        ssize_t length = readlink("/proc/self/exe", spool->program, sizeof spool->program - 1);
        spool->program[length > 0 ? length : 0] = '\0';
    }
    linux_read_file("/proc/self/cmdline", spool->arguments, sizeof spool->arguments);
}

// Appends the line if it describes mapped code of a file.
static size_t maps_take_line(const char* line, size_t length, char* text, size_t capacity) {
    const char* space = memchr(line, ' ', length);
    bool code = space != NULL && (size_t)(space - line) + 4 < length && space[3] == 'x';
    if (!code || memchr(line, '/', length) == NULL || length + 1 > capacity) return 0;
    memcpy(text, line, length);
    text[length] = '\n';
    return length + 1;
}

size_t system_maps(char* text, size_t bytes) {
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    char buffer[4096 + PATH_MAX];
    size_t held = 0;
    size_t taken = 0;
    for (;;) {
        ssize_t got = read(file, buffer + held, sizeof buffer - held);
        if (got <= 0) break;
        held += (size_t)got;
        const char* line = buffer;
        const char* end;
        while ((end = memchr(line, '\n', held - (size_t)(line - buffer))) != NULL) {
            taken += maps_take_line(line, (size_t)(end - line), text + taken, bytes - taken);
            line = end + 1;
        }
        held -= (size_t)(line - buffer);
        memmove(buffer, line, held);
        if (held == sizeof buffer) held = 0; // no line is that long
    }
    close(file);
    return taken;
}

// clang-format off
// ---- The files of a recording -------------------------------------------------------------------
// clang-format on

static char log_path[PATH_MAX];
static char rings_path[PATH_MAX];
static _Atomic int log_file = -1;
static dev_t log_device;
static ino_t log_inode;
static size_t rings_bytes;

void* linux_map(int file, size_t bytes) {
    void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

// A program that closes all its descriptors may have opened another file with the same number.
static bool file_is_ours(int file) {
    struct stat status;
    return file >= 0 && syscall(SYS_fstat, file, &status) == 0 && status.st_dev == log_device &&
           status.st_ino == log_inode;
}

// Returns the file's descriptor, or -1. If the program has closed it, each thread that detects this
// opens the file again. The descriptor of the first such thread is kept.
static int file_open_again(bool* keep) {
    int file = atomic_get_acquire(&log_file);
    *keep = true;
    if (file_is_ours(file)) return file;
    int again = open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (again < 0) return -1;
    if (!file_is_ours(again)) {
        close(again);
        errno = EBADF;
        return -1;
    }
    *keep = atomic_try_ordered(&log_file, &file, again);
    return again;
}

static void file_close(void) {
    if (file_is_ours(log_file)) close(log_file);
    log_file = -1;
}

static int paths_make(const char* path) {
    char absolute[PATH_MAX] = "";
    // The program may change its working directory before it ends.
    if (path[0] != '/' && getcwd(absolute, sizeof absolute - 1) == NULL) return errno;
    const char* slash = path[0] == '/' ? "" : "/";
    int length = snprintf(log_path, sizeof log_path, "%s%s%s", absolute, slash, path);
    int longer = snprintf(rings_path, sizeof rings_path, "%s%s%s.rings", absolute, slash, path);
    bool fits = length >= 0 && longer >= 0 && (size_t)longer < sizeof rings_path;
    if (!fits) log_path[0] = rings_path[0] = '\0';
    return fits ? 0 : ENAMETOOLONG;
}

static int log_create(void) {
    file_close(); // in a forked child, the file of its parent
    log_file =
        open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log_file < 0) return errno;
    struct stat status;
    if (syscall(SYS_fstat, log_file, &status) != 0) return errno;
    log_device = status.st_dev;
    log_inode = status.st_ino;
    return 0;
}

int system_files_create(const char* path, size_t bytes, size_t first_bytes, void** rings) {
    rings_bytes = bytes;
    int error = paths_make(path);
    if (error == 0) error = log_create();
    if (error != 0) return error;
    int file = open(rings_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return errno;
    error = ftruncate(file, (off_t)bytes) == 0 ? 0 : errno;
    if (error == 0) error = posix_fallocate(file, 0, (off_t)first_bytes);
    if (error == 0) {
        *rings = linux_map(file, bytes);
        if (*rings == NULL) error = errno;
    }
    close(file);
    return error;
}

// One call, so that the pieces of several threads do not mix.
int system_files_append(const struct piece* pieces, int count) {
    struct iovec parts[PIECES_MAX];
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        parts[i] = (struct iovec){(void*)(uintptr_t)pieces[i].bytes, pieces[i].length};
        bytes += pieces[i].length;
    }
    bool keep;
    int file = file_open_again(&keep);
    if (file < 0) return errno;
    ssize_t written = writev(file, parts, count);
    int error = written < 0 ? errno : (size_t)written == bytes ? 0 : ENOSPC;
    if (!keep) close(file);
    return error;
}

bool system_files_reserve(uint64_t offset, uint64_t bytes) {
    int file = open(rings_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return false;
    bool done = posix_fallocate(file, (off_t)offset, (off_t)bytes) == 0;
    close(file);
    return done;
}

static void rings_release(char* rings, uint64_t first, uint64_t end) {
    if (end > first) {
        void* left = mmap(rings + first, end - first, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (left == MAP_FAILED) return; // all rings stay mapped
        madvise(left, end - first, MADV_DONTFORK);
    }
    munmap(rings + end, rings_bytes - end);
    munmap(rings, first);
}

void system_files_release(void* rings, uint64_t first, uint64_t end, enum system_kept kept) {
    file_close();
    if (rings != NULL) rings_release(rings, first, end);
    if (kept == KEPT_NONE) unlink(log_path);
    if (kept != KEPT_BOTH) unlink(rings_path);
}

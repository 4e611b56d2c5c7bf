#include "os/process.h"
#include "base/atomic.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FULL_MS 1000

extern char** environ __attribute__((weak)); // of the program, not of a library, on FreeBSD

uint64_t os_clock_ms(void) {
    struct timespec now;
    int saved = errno;
    bool known = clock_gettime(CLOCK_MONOTONIC, &now) == 0;
    errno = saved;
    return known ? (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 : 0;
}

uint32_t os_process_id(void) {
    return (uint32_t)getpid();
}

static atomic_state home; // the process that was recorded last

void os_process_record(void) {
    atomic_set(&home, os_process_id());
}

bool os_process_is_guest(void) {
    uint32_t recorded = atomic_get(&home);
    return recorded != 0 && recorded != os_process_id();
}

char* const* os_environment(void) {
    return getuid() != geteuid() || getgid() != getegid() ? NULL : environ;
}

static bool random_read(uint64_t* number) {
    int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    bool done = read(file, number, sizeof *number) == sizeof *number;
    (void)close(file);
    return done;
}

uint64_t os_random(void) {
    uint64_t number = 0;
    struct timespec now = {0, 0};
    int saved = errno, cancelled;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    if (!random_read(&number)) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        number = ((uint64_t)now.tv_nsec ^ (uintptr_t)&number) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
    }
    (void)pthread_setcancelstate(cancelled, NULL);
    errno = saved;
    return number;
}

// For a stderr that does not block and is full. False: it stayed full.
static bool wait_for_room(void) {
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&error, 1, FULL_MS) > 0;
}

static void write_all(const char* text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno == EAGAIN && wait_for_room()) continue;
        if (written <= 0) break;
        text += written;
        length -= (size_t)written;
    }
}

// A SIGPIPE of the writing itself is taken away: it must not end the process.
void os_write_error(const char* text, size_t length) {
    sigset_t pipe_signal, before, pending;
    int saved = errno, cancelled, taken;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    (void)sigemptyset(&pipe_signal);
    (void)sigaddset(&pipe_signal, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    bool was_pending = sigpending(&pending) != 0 || sigismember(&pending, SIGPIPE) != 0;
    write_all(text, length);
    if (!was_pending && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1)
        (void)sigwait(&pipe_signal, &taken);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_setcancelstate(cancelled, NULL);
    errno = saved;
}

void os_abort(const char* text, size_t length) {
    os_write_error(text, length);
    abort();
}

static uint64_t milliseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

// POSIX states the times. The other members exist on all its systems that Keel is built for; on
// macOS ru_maxrss is in bytes, elsewhere in KiB. The present resident size is not known.
void os_usage(struct os_usage* usage) {
    struct rusage self = {0};
    (void)getrusage(RUSAGE_SELF, &self);
#if defined(__APPLE__)
    const uint64_t unit = 1;
#else
    const uint64_t unit = 1024;
#endif
    *usage = (struct os_usage){
        .user_ms = milliseconds(self.ru_utime),
        .system_ms = milliseconds(self.ru_stime),
        .rss_peak_bytes = (uint64_t)self.ru_maxrss * unit,
        .major_faults = (uint64_t)self.ru_majflt,
        .minor_faults = (uint64_t)self.ru_minflt,
    };
}

#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FULL_MS 1000

#if defined(__x86_64__)
bool os_order_threads(void) {
    atomic_order_for_signals();
    return true;
}
#else
bool os_order_threads(void) {
    static atomic_state registered;
    if (atomic_get(&registered) == 0) {
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
            return false;
        atomic_set(&registered, 1);
    }
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#endif

uint64_t os_clock_ms(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint32_t os_process_id(void) {
    return (uint32_t)getpid();
}

// A page that the system zeroes in each copy of the process, with its address and whether it was
// written, which it copies.
static struct {
    atomic_word page;
    atomic_state is_marked;
} mark;

void os_process_mark(void) {
    atomic_word* page = (atomic_word*)atomic_get(&mark.page);
    int saved = errno;
    if (page == NULL) {
        page = os_map(os_page_bytes(), os_page_bytes());
        if (page == NULL) return;
        if (madvise(page, os_page_bytes(), 18 /* MADV_WIPEONFORK, Linux 4.14 */) != 0) {
            os_unmap(page, os_page_bytes());
            errno = saved;
            return;
        }
        atomic_set(&mark.page, (uintptr_t)page);
    }
    atomic_set(page, 1);
    atomic_set_release(&mark.is_marked, 1);
}

void os_process_unmark(void) {
    atomic_set(&mark.is_marked, 0);
}

bool os_process_is_copy(void) {
    if (atomic_get_acquire(&mark.is_marked) == 0) return false;
    return atomic_get((const atomic_word*)atomic_get(&mark.page)) == 0;
}

static atomic_state home; // the process that was recorded last

void os_process_record(void) {
    atomic_set(&home, os_process_id());
}

bool os_process_is_guest(void) {
    enum { KCMP_VM_NUMBER = 1 }; // KCMP_VM; <linux/kcmp.h> names it
    uint32_t self = os_process_id();
    uint32_t recorded = atomic_get(&home);
    if (self == recorded || recorded == 0) return false;
    int saved = errno;
    long order = syscall(SYS_kcmp, self, recorded, KCMP_VM_NUMBER, 0, 0);
    bool other_ended = order == -1 && errno == ESRCH;
    errno = saved;
    // If the system does not answer, it counts as a guest.
    bool is_guest = order == 0 || (order == -1 && !other_ended);
    if (!is_guest) os_process_record();
    return is_guest;
}

char* const* os_environment(void) {
    return getauxval(AT_SECURE) != 0 ? NULL : environ;
}

uint64_t os_random(void) {
    int saved = errno;
    uint64_t number;
    int cancelling = os_cancel_disable();
    ssize_t length = getrandom(&number, sizeof number, GRND_NONBLOCK);
    os_cancel_restore(cancelling);
    if (length != sizeof number) {
        struct timespec now = {0, 0};
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        number = ((uint64_t)now.tv_nsec ^ (uintptr_t)&number) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
    }
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

// If stderr is a pipe that nobody reads, the message is lost, but SIGPIPE does not end the process.
void os_write_error(const char* text, size_t length) {
    int saved = errno;
    int cancelling = os_cancel_disable();
    sigset_t pipe_signal, before, pending;
    const struct timespec at_once = {0, 0};
    (void)sigemptyset(&pipe_signal);
    (void)sigaddset(&pipe_signal, SIGPIPE);
    (void)sigemptyset(&pending);
    bool blocked = pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) == 0;
    (void)sigpending(&pending);
    write_all(text, length);
    if (blocked && sigismember(&pending, SIGPIPE) == 0)
        (void)sigtimedwait(&pipe_signal, NULL, &at_once);
    if (blocked) (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    os_cancel_restore(cancelling);
    errno = saved;
}

void* os_next_symbol(const char* name) {
    return dlsym(RTLD_NEXT, name);
}

void os_abort(const char* text, size_t length) {
    os_write_error(text, length);
    abort();
}

// Second number of /proc/self/statm: resident pages. Read with plain calls: stdio would allocate.
static uint64_t resident_pages(void) {
    char buffer[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, buffer, sizeof buffer - 1);
    (void)close(file);
    uint64_t pages = 0;
    ssize_t i = 0;
    while (i < length && buffer[i] != ' ') i++;
    for (i++; i < length && buffer[i] >= '0' && buffer[i] <= '9'; i++) {
        pages = pages * 10 + (uint64_t)(buffer[i] - '0');
    }
    return pages;
}

static uint64_t milliseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

void os_usage(struct os_usage* usage) {
    int saved = errno;
    struct rusage self = {0};
    (void)getrusage(RUSAGE_SELF, &self);
    usage->user_ms = milliseconds(self.ru_utime);
    usage->system_ms = milliseconds(self.ru_stime);
    int cancelling = os_cancel_disable();
    usage->rss_bytes = resident_pages() * os_page_bytes();
    os_cancel_restore(cancelling);
    usage->rss_peak_bytes = (uint64_t)self.ru_maxrss * 1024;
    usage->major_faults = (uint64_t)self.ru_majflt;
    usage->minor_faults = (uint64_t)self.ru_minflt;
    errno = saved;
}

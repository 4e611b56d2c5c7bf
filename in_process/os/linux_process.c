#include "os/call.h"
#include "os/confined.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/thread.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FULL_SECONDS 1

#if defined(__x86_64__)
bool os_order_threads(void) {
    atomic_order_for_signals();
    return true;
}
#else
bool os_order_threads(void) {
    enum { ORDER = 8, REGISTER = 16 }; // MEMBARRIER_CMD_PRIVATE_EXPEDITED and its registration
    static atomic_state registered;
    if (!os_may_look()) return false;
    if (atomic_get(&registered) == 0) {
        if (os_call(SYS_membarrier, REGISTER) != 0) return false;
        atomic_set(&registered, 1);
    }
    return os_call(SYS_membarrier, ORDER) == 0;
}
#endif

uint32_t os_process_id(void) {
    return (uint32_t)os_call(SYS_getpid);
}

// A page that the system zeroes in each copy of the process, with its address and whether it was
// written, which it copies.
static struct {
    atomic_word page;
    atomic_state is_marked;
} mark;

void os_process_mark(void) {
    enum { WIPE_ON_FORK = 18 }; // MADV_WIPEONFORK, Linux 4.14
    atomic_word* page = (atomic_word*)atomic_get(&mark.page);
    if (page == NULL) {
        page = os_map(os_page_bytes(), os_page_bytes());
        if (page == NULL) return;
        if (os_call(SYS_madvise, page, os_page_bytes(), WIPE_ON_FORK) != 0) {
            os_unmap(page, os_page_bytes());
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
    uint32_t recorded = atomic_get(&home);
    return recorded != 0 && recorded != os_process_id();
}

char* const* os_environment(void) {
    return getauxval(AT_SECURE) != 0 ? NULL : environ;
}

uint64_t os_random(void) {
    uint64_t number;
    if (os_call(SYS_getrandom, &number, sizeof number, GRND_NONBLOCK) == sizeof number)
        return number;
    struct timespec now = {0, 0};
    (void)os_call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_nsec ^ (uintptr_t)&number) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
}

// For a stderr that does not block and is full. False: it stayed full.
static bool wait_for_room(void) {
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct timespec limit = {.tv_sec = FULL_SECONDS};
    return os_call(SYS_ppoll, &error, 1, &limit, NULL, 0) > 0;
}

static void write_all(const char* text, size_t length) {
    while (length > 0) {
        intptr_t written = os_call(SYS_write, STDERR_FILENO, text, length);
        if (written == -EINTR) continue;
        if (written == -EAGAIN && os_may_open() && wait_for_room()) continue;
        if (written <= 0) break;
        text += written;
        length -= (size_t)written;
    }
}

// If stderr is a pipe that nobody reads, the message is lost, but SIGPIPE does not end the process
// (unless the process is confined).
void os_write_error(const char* text, size_t length) {
    const os_signals pipe_signal = os_signal(SIGPIPE);
    const struct timespec at_once = {0, 0};
    os_signals before, pending = 0;
    if (!os_may_open()) {
        write_all(text, length);
        return;
    }
    bool blocked = os_signals_block(pipe_signal, &before);
    (void)os_call(SYS_rt_sigpending, &pending, sizeof pending);
    write_all(text, length);
    if (blocked && (pending & pipe_signal) == 0)
        (void)os_call(SYS_rt_sigtimedwait, &pipe_signal, NULL, &at_once, sizeof pipe_signal);
    if (blocked) os_signals_restore(before);
}

void os_abort(const char* text, size_t length) {
    os_write_error(text, length);
    abort();
}

// Second number of /proc/self/statm: resident pages.
static uint64_t resident_pages(void) {
    char text[128];
    uint64_t pages = 0;
    size_t i = 0;
    if (!os_file_read("/proc/self/statm", text, sizeof text)) return 0;
    while (text[i] != ' ' && text[i] != '\0') i++;
    if (text[i] == ' ') i++;
    for (; text[i] >= '0' && text[i] <= '9'; i++) pages = pages * 10 + (uint64_t)(text[i] - '0');
    return pages;
}

static uint64_t milliseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

void os_usage(struct os_usage* usage) {
    struct rusage self = {0};
    (void)os_call(SYS_getrusage, RUSAGE_SELF, &self);
    *usage = (struct os_usage){
        .user_ms = milliseconds(self.ru_utime),
        .system_ms = milliseconds(self.ru_stime),
        .rss_bytes = resident_pages() * os_page_bytes(),
        .rss_peak_bytes = (uint64_t)self.ru_maxrss * 1024,
        .major_faults = (uint64_t)self.ru_majflt,
        .minor_faults = (uint64_t)self.ru_minflt,
    };
}

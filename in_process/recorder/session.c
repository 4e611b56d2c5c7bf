#include "session.h"

#include "clock.h"
#include "host.h"
#include "sampled.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { SPOOLS_PER_PID_MAX = 10000, READER_SILENCE_MS = 2000, ROOM_WAIT_MS = 5000 };

struct session_page session_page;
struct session session;

// A forked child keeps this value, so that a child that is not followed needs no system call except
// getpid.
static uint32_t known_root_pid;
static bool known_follow;
static char known_folder[PATH_MAX];
static char executed_path[PATH_MAX]; // in a process that may be recorded

static size_t spool_bytes(void) {
    return kl_ring_offset(KL_RING_MAX);
}

struct kl_ring* session_ring(uint32_t index) {
    return (struct kl_ring*)((char*)session.spool + session.rings[index].offset);
}

static bool session_path(char path[static PATH_MAX], const char* folder, const char* name) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

// Opens a file of the session; -1 on failure.
static int session_open(const char* folder, const char* name, int flags) {
    char path[PATH_MAX];
    if (!session_path(path, folder, name)) return -1;
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void session_unlink(const char* folder, const char* name) {
    char path[PATH_MAX];
    if (session_path(path, folder, name)) unlink(path);
}

void* session_map(int file, size_t bytes) {
    void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

static bool control_map(const char* folder) {
    int file = session_open(folder, "control", O_RDWR);
    if (file < 0) return false;
    struct kl_control* control = session_map(file, KL_PAGE_BYTES);
    close(file);
    if (control == NULL) return false;
    if (control->magic != KL_CONTROL_MAGIC || control->version != KL_RING_VERSION) {
        munmap(control, KL_PAGE_BYTES);
        return false;
    }
    session.control = control;
    session.clock = control->clock;
    session.stacks = control->stacks;
    session.sample_bytes = control->sample_bytes;
    session.sample_seed = control->sample_seed;
    session.slow_ticks = control->slow_ticks;
    known_root_pid = control->root_pid;
    known_follow = control->follow != 0;
    return true;
}

// Reserves the first pages of a spool. Thousands of short processes can fill a small file system:
// waits until the reader has removed the spools of those that ended. Returns 0 or the errno.
static int spool_reserve(int file) {
    enum { PERIOD_MS = 1 };
    uint64_t began = clock_monotonic();
    for (;;) {
        int error = posix_fallocate(file, 0, (off_t)kl_ring_offset(1));
        bool waits = clock_monotonic() - began < (uint64_t)ROOM_WAIT_MS * 1000000u &&
                     atomic_get_acquire(&session.control->stop) == 0;
        if (error != ENOSPC || !waits) return error;
        session_ring_bell();
        nanosleep(&(struct timespec){.tv_nsec = PERIOD_MS * 1000000}, NULL);
    }
}

// Creates the spool of this program image, with memory for the header, the table and ring 0.
// Returns 0 or the errno.
static int spool_map(const char* folder) {
    int file = -1;
    char name[32];
    for (int image = 0; file < 0 && image < SPOOLS_PER_PID_MAX; image++) {
        snprintf(name, sizeof name, "%d.%d", (int)getpid(), image);
        file = session_open(folder, name, O_RDWR | O_CREAT | O_EXCL);
        if (file < 0 && errno != EEXIST) return errno;
    }
    if (file < 0) return EEXIST;
    // Beyond its limit of file sizes, the system would end the program (SIGXFSZ).
    struct rlimit limit;
    bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= spool_bytes();
    int error = !fits ? EFBIG : ftruncate(file, (off_t)spool_bytes()) == 0 ? 0 : errno;
    if (error == 0) error = spool_reserve(file);
    if (error == 0) {
        session.spool = session_map(file, spool_bytes());
        if (session.spool == NULL) error = errno;
    }
    close(file);
    if (error != 0) session_unlink(folder, name);
    return error;
}

static void file_read(const char* path, char* text, size_t bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    ssize_t got = read(file, text, bytes - 1);
    text[got > 0 ? got : 0] = '\0';
    close(file);
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

size_t session_maps(char* text, size_t bytes) {
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

// A container has a namespace of its own, in which other processes have the same numbers.
static uint64_t pid_namespace(void) {
    char link[32] = ""; // pid:[4026531836]
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    const char* inode = length > 0 ? strchr(link, '[') : NULL;
    return inode != NULL ? strtoull(inode + 1, NULL, 10) : 0;
}

void session_describe(uint64_t magic) {
    struct kl_spool* spool = session.spool;
    session.rings = (struct kl_ring_entry*)((char*)spool + KL_PAGE_BYTES);
    spool->version = KL_RING_VERSION;
    spool->pid = (uint32_t)getpid();
    spool->pid_namespace = pid_namespace();
    snprintf(spool->allocator, sizeof spool->allocator, "%s", host_allocator());
    snprintf(spool->other_allocator, sizeof spool->other_allocator, "%s", host_other_allocator());
    ssize_t length = readlink("/proc/self/exe", spool->program, sizeof spool->program - 1);
    spool->program[length > 0 ? length : 0] = '\0';
    file_read("/proc/self/cmdline", spool->arguments, sizeof spool->arguments);
    session.rings[0] = (struct kl_ring_entry){
        .offset = kl_ring_offset(0), .slots = kl_ring_slots(0), .state = KL_RING_FREE_STATE};
    spool->maps_bytes = (uint32_t)session_maps((char*)spool + KL_SPOOL_MAPS, KL_MAPS_BYTES);
    spool->clock = session.clock;
    spool->prepared = 1;
    spool->started_ticks = clock_ticks(session.clock, true);
    spool->magic = magic;
    atomic_set_release(&spool->ready, 1);
}

static void session_announce(void) {
    atomic_add_release(&session.control->spools, 1);
    session_ring_bell();
}

static bool session_join(void) {
    if (known_root_pid != 0 && !known_follow && known_root_pid != (uint32_t)getpid()) return false;
    if (known_folder[0] == '\0') {
        // In a set-user-id program the environment is that of another user, so it is not read.
        const char* folder = secure_getenv(KL_SESSION_VARIABLE);
        if (folder == NULL || strlen(folder) >= sizeof known_folder) return false;
        memcpy(known_folder, folder, strlen(folder) + 1);
    }
    if (!control_map(known_folder)) return false;
    if (!session_path(executed_path, known_folder, KL_EXECUTED_NAME)) return false;
    if (!known_follow && known_root_pid != (uint32_t)getpid()) return false;
    if (atomic_get(&session.control->stop) != 0) return false;
    if (session.control->embedded != host_embedded()) return false;
    int error = spool_map(known_folder);
    if (error == 0 && session.sample_bytes != 0 && !sampled_begin()) error = ENOMEM;
    if (error != 0) {
        atomic_set(&session.control->failed, (uint32_t)error);
        return false;
    }
    if (session.control->patches != 0) host_patch(known_folder, session.control->patches);
    session_describe(KL_SPOOL_MAGIC);
    session_announce();
    return true;
}

// A child of a process that is not followed has nothing to report. One call of writev, so that
// lines of several processes do not mix.
void session_note_exec(char how, const char* path, bool in_child) {
    char start[32];
    char folder[1024] = "";
    if (executed_path[0] == '\0') return;
    if (!known_follow && (in_child || known_root_pid != (uint32_t)getpid())) return;
    int file = open(executed_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return;
    int length = snprintf(start, sizeof start, "%d %c ", in_child ? 0 : (int)getpid(), how);
    bool is_relative = path[0] != '/' && path[0] != '\0' && getcwd(folder, sizeof folder) != NULL;
    struct iovec parts[] = {{start, (size_t)length},
                            {folder, is_relative ? strlen(folder) : 0},
                            {(char[]){"/"}, is_relative ? 1 : 0},
                            {(char*)(uintptr_t)path, strlen(path)},
                            {(char[]){"\n"}, 1}};
    ssize_t written = writev(file, parts, sizeof parts / sizeof parts[0]);
    (void)written;
    close(file);
}

// A forked child has its parent's variables, but not its parent's spool and threads.
static void session_reset(void) {
    sampled_end();
    session.spool = NULL;
    session.rings = NULL;
    session.own_log = 0;
    atomic_set(&session.users, 0);
}

void session_start(void) {
    int saved_errno = errno;
    session_reset();
    // A child inherits this advice. To give it again costs little.
    madvise(&session_page, sizeof session_page, MADV_WIPEONFORK);
    if (environ == NULL) {
        // ld.so allocates before the C library has its environment: try again at the next call.
        atomic_set_release(&session_page.state, SESSION_UNKNOWN);
        errno = saved_errno;
        return;
    }
    bool on = session_join();
    atomic_set_release(&session_page.state, on ? SESSION_ON : SESSION_OFF);
    errno = saved_errno;
}

bool session_release(void) {
    if (session_state() == SESSION_ON || atomic_get_ordered(&session.users) != 0) return false;
    if (session.spool == NULL) return true;
    mmap(session.spool, spool_bytes(), PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    session.spool = NULL;
    session.rings = NULL;
    return true;
}

void session_stop(enum kl_stop reason) {
    struct kl_spool* spool = session.spool;
    uint32_t none = KL_STOP_NONE;
    uint64_t now = clock_ticks(session.clock, true);
    uint64_t never = 0;
    atomic_try_ordered(&spool->stop_ticks, &never, now);
    atomic_try_ordered(&spool->stopped, &none, (uint32_t)reason);
    atomic_set_ordered(&session_page.state, SESSION_OFF);
    sampled_end();
    host_stopped();
}

// Either this thread reads OFF here, or session_wait_for_all waits for this thread.
bool session_enter(void) {
    atomic_add_ordered(&session.users, 1);
    if (atomic_get_ordered(&session_page.state) == SESSION_ON) return true;
    session_leave();
    return false;
}

void session_leave(void) {
    atomic_sub_release(&session.users, 1);
}

void session_wait_for_all(void) {
    enum { POLL_US = 50 };
    while (atomic_get_acquire(&session.users) != 0)
        nanosleep(&(struct timespec){.tv_nsec = POLL_US * 1000}, NULL);
}

void session_wait(_Atomic uint32_t* word, uint32_t expected, uint32_t timeout_ms) {
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
}

void session_wake(_Atomic uint32_t* word, int threads) {
    syscall(SYS_futex, word, FUTEX_WAKE, threads, NULL, NULL, 0);
}

void session_ring_bell(void) {
    struct kl_control* control = session.control;
    if (atomic_swap_ordered(&control->sleeping, 0) == 0) return;
    atomic_add_ordered(&control->bell, 1);
    session_wake(&control->bell, 1);
}

// kill succeeds for a zombie, so this reads the process state: the letter after the closing
// parenthesis of the name.
static bool process_is_dead(uint32_t pid) {
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return true;
    char path[32];
    char text[256] = "";
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    file_read(path, text, sizeof text);
    const char* name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

int session_start_in(const char* folder) {
    if (strlen(folder) >= sizeof known_folder) return ENAMETOOLONG;
    if (session_state() == SESSION_ON && !process_is_dead(session.control->reader_pid))
        return EALREADY;
    atomic_set_release(&session_page.state, SESSION_OFF);
    if (!session_release()) return EBUSY;
    session_reset();
    madvise(&session_page, sizeof session_page, MADV_WIPEONFORK);
    memcpy(known_folder, folder, strlen(folder) + 1);
    known_root_pid = 0;
    errno = 0;
    if (!session_join()) return errno != 0 ? errno : EINVAL;
    atomic_set(&session.threaded, 1);
    atomic_add_release(&session.number, 1);
    atomic_set_release(&session_page.state, SESSION_ON);
    return 0;
}

enum kl_stop session_must_stop(uint64_t* heartbeat, uint64_t* silent_since_ns) {
    struct kl_control* control = session.control;
    if (atomic_get_acquire(&control->stop) != 0) return KL_STOP_READER_ASKED;
    uint64_t beat = atomic_get(&control->heartbeat);
    uint64_t now = clock_monotonic();
    if (beat != *heartbeat || *silent_since_ns == 0) {
        *heartbeat = beat;
        *silent_since_ns = now;
        return KL_STOP_NONE;
    }
    // kill reports a reader in another process namespace as dead, but the reader's heartbeat
    // continues. A stopped reader has no heartbeat, but is not dead.
    if (now - *silent_since_ns < (uint64_t)READER_SILENCE_MS * 1000000u) return KL_STOP_NONE;
    return process_is_dead(control->reader_pid) ? KL_STOP_READER_DEAD : KL_STOP_NONE;
}

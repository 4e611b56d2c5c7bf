#include "session.h"

#include "clock.h"
#include "host.h"
#include "linux.h"
#include "sampled.h"
#include "system.h"
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

enum { SPOOLS_PER_PID_MAX = 10000, READER_SILENCE_MS = 2000, ROOM_WAIT_MS = 5000 };

// A forked child keeps this value and the mapping of the control page, so that a child that is not
// followed needs no system call except getpid, and one that can no longer open the session's files
// can say so. 0: the page is not mapped.
static uint32_t known_root_pid;
static bool known_follow;
static char known_folder[PATH_MAX];
static char executed_path[PATH_MAX]; // in a process that may be recorded

static size_t spool_bytes(void) {
    return kl_ring_offset(KL_RING_MAX);
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

static bool control_map(const char* folder) {
    int file = session_open(folder, "control", O_RDWR);
    if (file < 0) return false;
    struct kl_control* control = linux_map(file, KL_PAGE_BYTES);
    close(file);
    if (control == NULL) return false;
    if (control->magic != KL_CONTROL_MAGIC || control->version != KL_RING_VERSION) {
        munmap(control, KL_PAGE_BYTES);
        return false;
    }
    madvise(control, KL_PAGE_BYTES, MADV_DOFORK);
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
        session.spool = linux_map(file, spool_bytes());
        if (session.spool == NULL) error = errno;
    }
    close(file);
    if (error != 0) session_unlink(folder, name);
    return error;
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
    if (known_root_pid == 0 && !control_map(known_folder)) return false;
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

// For a process that cannot open the file of the lines.
static void note_in_page(const struct iovec* parts, int count) {
    struct kl_control* control = session.control;
    uint32_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += (uint32_t)parts[i].iov_len;
    if (atomic_get(&control->noted) > KL_NOTES_BYTES) return;
    uint32_t at = atomic_add(&control->noted, bytes);
    if (at > KL_NOTES_BYTES || bytes > KL_NOTES_BYTES - at) return;
    for (int i = 0; i < count; i++) {
        const char* text = parts[i].iov_base;
        for (size_t j = 0; j < parts[i].iov_len; j++)
            atomic_set_release(&control->notes[at++], (uint8_t)text[j]);
    }
}

// A child of a process that is not followed has nothing to report. One call of writev, so that
// lines of several processes do not mix.
void session_note_exec(char how, const char* path, bool in_child) {
    char start[32];
    char folder[1024] = "";
    if (executed_path[0] == '\0') return;
    if (!known_follow && (in_child || known_root_pid != (uint32_t)getpid())) return;
    int file = open(executed_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    // The executed program has fewer open descriptors, but the same user and root folder. It may
    // have fewer capabilities, which access does not count.
    bool opens = file >= 0 ? access(executed_path, W_OK) == 0 : errno == EMFILE || errno == ENFILE;
    if (!opens && how != 'f') how = 'u';
    int length = snprintf(start, sizeof start, "%d %c ", in_child ? 0 : (int)getpid(), how);
    bool is_relative = path[0] != '/' && path[0] != '\0' && getcwd(folder, sizeof folder) != NULL;
    struct iovec parts[] = {{start, (size_t)length},
                            {folder, is_relative ? strlen(folder) : 0},
                            {(char[]){"/"}, is_relative ? 1 : 0},
                            {(char*)(uintptr_t)path, strlen(path)},
                            {(char[]){"\n"}, 1}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    if (file < 0) {
        note_in_page(parts, PARTS);
        return;
    }
    ssize_t written = writev(file, parts, PARTS);
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
    system_wipe_on_fork(&session_page, sizeof session_page);
    if (environ == NULL && known_folder[0] == '\0') {
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
    linux_read_file(path, text, sizeof text);
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
    system_wipe_on_fork(&session_page, sizeof session_page);
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

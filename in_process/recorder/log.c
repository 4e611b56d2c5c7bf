#include "log.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "clock.h"
#include "session.h"
#include "signals.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char log_path[PATH_MAX];
static char rings_path[PATH_MAX];
static _Atomic int log_file = -1;
static dev_t log_device;
static ino_t log_inode;
static atomic_state preparing;

static uint64_t clock_raw(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Reads both clocks several times and takes the closest pair. So an interrupt between two readings
// does no harm.
static void clocks_read(struct kl_log_chunk* chunk) {
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_ticks(session.clock, true);
        uint64_t raw_ns = clock_raw();
        uint64_t width = clock_ticks(session.clock, true) - before;
        if (width >= closest) continue;
        closest = width;
        chunk->ticks = before + width / 2;
        chunk->raw_ns = raw_ns;
    }
}

// Chooses the processor's counter if /proc/cpuinfo shows that its rate is constant.
static uint32_t clock_choose(void) {
#if defined(__aarch64__)
    return KL_CLOCK_TSC;
#else
    char text[4096];
    int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    if (file < 0) return KL_CLOCK_MONOTONIC;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = '\0';
    bool even = strstr(text, " constant_tsc") != NULL && strstr(text, " nonstop_tsc") != NULL;
    return even ? KL_CLOCK_TSC : KL_CLOCK_MONOTONIC;
#endif
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
        return -1;
    }
    *keep = atomic_try_ordered(&log_file, &file, again);
    return again;
}

static void file_close(void) {
    if (file_is_ours(log_file)) close(log_file);
    log_file = -1;
}

// Appends a chunk in one call, so that chunks of several threads do not mix.
static bool chunk_append(struct kl_log_chunk chunk, const struct iovec* parts, int count) {
    struct iovec all[3] = {{&chunk, sizeof chunk}};
    chunk.magic = KL_CHUNK_MAGIC;
    clocks_read(&chunk);
    for (int i = 0; i < count; i++) {
        all[i + 1] = parts[i];
        chunk.bytes += parts[i].iov_len;
    }
    bool keep;
    int file = file_open_again(&keep);
    if (file < 0) return false;
    errno = 0;
    ssize_t written = writev(file, all, count + 1);
    int error = errno;
    if (!keep) close(file);
    errno = error;
    return written >= 0 && (uint64_t)written == sizeof chunk + chunk.bytes;
}

bool log_write_ring(struct kl_ring_entry* entry) {
    struct kl_ring* ring = session_ring((uint32_t)(entry - session.rings));
    struct kl_ring_slot* slots = kl_ring_first_slot(ring);
    unsigned shift = bit_lowest(entry->slots);
    uint64_t mask = entry->slots - 1;
    uint64_t first = atomic_get(&ring->tail);
    uint64_t end = first;
    for (; end - first < entry->slots; end++) {
        uint64_t word = atomic_get_acquire(&slots[end & mask].word);
        if ((word & 0xff) == 0 || (word >> 8 & 0xff) != kl_ring_tag(end, shift)) break;
    }
    if (end == first) return true;
    uint64_t until_wrap = entry->slots - (first & mask);
    uint64_t count = end - first;
    uint64_t before = count < until_wrap ? count : until_wrap;
    struct iovec parts[2] = {{&slots[first & mask], before * sizeof *slots},
                             {slots, (count - before) * sizeof *slots}};
    struct kl_log_chunk chunk = {.kind = KL_CHUNK_EVENTS,
                                 .ring = (uint32_t)(entry - session.rings),
                                 .first = first,
                                 .stalls = ring->stalls,
                                 .stalled_ticks = ring->stalled_ticks};
    if (!chunk_append(chunk, parts, 2)) return false;
    atomic_set_release(&ring->tail, end);
    return true;
}

bool log_prepare_ring(uint32_t index) {
    // A handler may also need a ring, and would wait for this thread.
    sigset_t before = signals_block();
    while (atomic_swap(&preparing, 1) != 0) sched_yield();
    bool done = atomic_get_acquire(&session.spool->prepared) > index;
    int file = done ? -1 : open(rings_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    uint64_t offset = kl_ring_offset(index);
    uint32_t slots = kl_ring_slots(index);
    if (file >= 0 && posix_fallocate(file, (off_t)offset, (off_t)kl_ring_bytes(slots)) == 0) {
        session.rings[index] = (struct kl_ring_entry){offset, slots, KL_RING_FREE_STATE};
        atomic_set_release(&session.spool->prepared, index + 1);
        done = true;
    }
    if (file >= 0) close(file);
    atomic_set_release(&preparing, 0);
    signals_restore(before);
    return done;
}

static int rings_create(void) {
    int file = open(rings_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return errno;
    size_t bytes = kl_ring_offset(KL_RING_MAX);
    int error = ftruncate(file, (off_t)bytes) == 0 ? 0 : errno;
    if (error == 0) error = posix_fallocate(file, 0, (off_t)kl_ring_offset(1));
    if (error == 0) {
        session.spool = session_map(file, bytes);
        if (session.spool == NULL) error = errno;
    }
    close(file);
    return error;
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

// Writes the header, the object files, and a reading of the clocks. A second reading follows a
// millisecond later. It gives the frequency if the program crashes before its first chunk.
static int log_write_head(void) {
    struct kl_spool header = *session.spool;
    header.magic = KL_LOG_MAGIC;
    ssize_t written = write(log_file, &header, sizeof header);
    if (written != (ssize_t)sizeof header) return written < 0 ? errno : ENOSPC;
    char* maps = (char*)session.spool + KL_SPOOL_MAPS;
    struct iovec part = {maps, session.spool->maps_bytes};
    struct kl_log_chunk chunk = {.kind = KL_CHUNK_MAPS};
    if (!chunk_append(chunk, &part, 1)) return ENOSPC;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return chunk_append(chunk, &part, 1) ? 0 : ENOSPC;
}

int log_start(const char* path) {
    char absolute[PATH_MAX] = "";
    // The program may change its working directory before it ends.
    if (path[0] != '/' && getcwd(absolute, sizeof absolute - 1) == NULL) return errno;
    const char* slash = path[0] == '/' ? "" : "/";
    int length = snprintf(log_path, sizeof log_path, "%s%s%s", absolute, slash, path);
    int longer = snprintf(rings_path, sizeof rings_path, "%s%s%s.rings", absolute, slash, path);
    if (length < 0 || longer < 0 || (size_t)longer >= sizeof rings_path) return ENAMETOOLONG;
    static bool chosen;
    if (!chosen) session.clock = clock_choose();
    chosen = true;
    atomic_set(&preparing, 0); // a fork may have copied a value that was set in the parent
    int error = log_create();
    if (error == 0) error = rings_create();
    if (error == 0) {
        session_describe(KL_SPOOL_MAGIC);
        error = log_write_head();
    }
    session.own_log = error == 0;
    if (error != 0) {
        log_release();
        unlink(log_path);
        unlink(rings_path);
    }
    return error;
}

int log_end(void) {
    uint32_t prepared = atomic_get_acquire(&session.spool->prepared);
    bool written = true;
    for (uint32_t index = 0; index < prepared && written; index++) {
        written = log_write_ring(&session.rings[index]);
    }
    char* maps = (char*)session.spool + KL_SPOOL_MAPS;
    struct iovec part = {maps, session_maps(maps, KL_MAPS_BYTES)};
    written = written && chunk_append((struct kl_log_chunk){.kind = KL_CHUNK_MAPS}, &part, 1);
    written = written && chunk_append((struct kl_log_chunk){.kind = KL_CHUNK_END}, NULL, 0);
    int error = written ? 0 : (errno != 0 ? errno : ENOSPC);
    if (error == 0) unlink(rings_path);
    return error;
}

void log_release(void) {
    char* spool = (char*)session.spool;
    file_close();
    session.own_log = 0;
    session.spool = NULL;
    session.rings = NULL;
    if (spool == NULL) return;
    uint32_t prepared = atomic_get_acquire(&((struct kl_spool*)spool)->prepared);
    uint64_t first = kl_ring_offset(0);
    uint64_t end = kl_ring_offset(prepared);
    if (end > first) {
        void* left = mmap(spool + first, end - first, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (left == MAP_FAILED) return; // the whole spool stays mapped
        madvise(left, end - first, MADV_DONTFORK);
    }
    munmap(spool + end, kl_ring_offset(KL_RING_MAX) - end);
    munmap(spool, first);
}

#include "refuse.h"
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

struct refusals refusals;

#define ALLOWED __attribute__((noinline, section("refuse_text"))) // to make system calls
extern const char __start_refuse_text[];
extern const char __stop_refuse_text[];

enum { PAGE = 4096, STEP = 65536, PASS_ALL = 0, STOP_ALL = 1 };
enum { DONT_UNMAP = 4, POPULATE_WRITE = 23, DONTNEED_LOCKED = 24, GUARD_FIRST = 102 };

static _Thread_local volatile char selector;
static _Thread_local uint64_t state; // of the thread's random numbers

// --- System calls of the handler -----------------------------------------------------------------

ALLOWED static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

void refuse_restorer(void);
__attribute__((naked, section("refuse_text"))) void refuse_restorer(void) {
    __asm__("mov $15, %eax\n syscall"); // rt_sigreturn
}

static uint64_t draw(uint64_t below) {
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (state ^ (state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % below;
}

// --- Foreign memory ------------------------------------------------------------------------------

enum { FOREIGN_MAX = 256 };
#define FOREIGN_BYTES_MAX ((size_t)16 << 20)
static struct {
    char* start;
    size_t bytes;
} foreign[FOREIGN_MAX];
static unsigned foreign_next;
static bool foreign_changed; // seen when an entry was replaced
static atomic_flag foreign_lock = ATOMIC_FLAG_INIT;

static void lock(void) {
    while (atomic_flag_test_and_set_explicit(&foreign_lock, memory_order_acquire)) {
    }
}
static void unlock(void) {
    atomic_flag_clear_explicit(&foreign_lock, memory_order_release);
}

static uint64_t mark_of(const char* at) {
    return (uint64_t)(uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15);
}

static bool is_marked(const char* start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += STEP)
        if (*(const uint64_t*)(start + at) != mark_of(start + at)) return false;
    const char* last = start + bytes - 8;
    return *(const uint64_t*)last == mark_of(last);
}

static void occupy(char* start, size_t bytes) {
    const long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (!refusals.occupies || bytes < PAGE || draw(4) == 0) return;
    if (bytes > FOREIGN_BYTES_MAX) bytes = FOREIGN_BYTES_MAX;
    long place = raw(SYS_mmap, (long)start, (long)bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (place != (long)start) return;
    (void)raw(SYS_madvise, place, (long)bytes, MADV_NOHUGEPAGE, 0, 0, 0); // it is measured
    for (size_t at = 0; at < bytes; at += STEP) *(uint64_t*)(start + at) = mark_of(start + at);
    *(uint64_t*)(start + bytes - 8) = mark_of(start + bytes - 8);
    lock();
    unsigned i = foreign_next++ % FOREIGN_MAX;
    char* old = foreign[i].start;
    size_t old_bytes = foreign[i].bytes;
    if (old != NULL && !is_marked(old, old_bytes)) foreign_changed = true;
    foreign[i].start = start;
    foreign[i].bytes = bytes;
    unlock();
    if (old != NULL) (void)raw(SYS_munmap, (long)old, (long)old_bytes, 0, 0, 0, 0);
}

bool foreign_holds(void) {
    lock();
    bool holds = !foreign_changed;
    for (unsigned i = 0; i < FOREIGN_MAX && holds; i++)
        holds = foreign[i].start == NULL || is_marked(foreign[i].start, foreign[i].bytes);
    unlock();
    return holds;
}

size_t foreign_resident_bytes(void) {
    size_t bytes = 0;
    for (unsigned i = 0; i < FOREIGN_MAX; i++) bytes += (foreign[i].bytes / STEP + 2) * PAGE;
    return bytes;
}

// --- Memory that was refused to go back ----------------------------------------------------------

static struct {
    char* start;
    size_t bytes;
} kept[FOREIGN_MAX];
static unsigned kept_next;
static _Thread_local long unmap_refused; // the range of the last call, if it was refused

// What cannot be unmapped is discarded. If both are refused, Keel can do no more with a range that
// it cannot describe. Address space without memory does not matter.
static void note_refused(long number, long start, size_t bytes, long advice) {
    bool again = number == SYS_madvise && advice == MADV_DONTNEED && start == unmap_refused;
    unmap_refused = number == SYS_munmap ? start : 0;
    if (!again || bytes > FOREIGN_BYTES_MAX) return;
    lock();
    unsigned i = 0;
    while (i < FOREIGN_MAX && kept[i].start != (char*)start) i++;
    if (i == FOREIGN_MAX) i = kept_next++ % FOREIGN_MAX;
    kept[i].start = (char*)start;
    kept[i].bytes = bytes;
    unlock();
}

size_t kept_resident_bytes(void) {
    static unsigned char resident[FOREIGN_BYTES_MAX / PAGE];
    size_t pages = 0;
    for (unsigned i = 0; i < FOREIGN_MAX; i++) {
        if (kept[i].start == NULL || mincore(kept[i].start, kept[i].bytes, resident) != 0) continue;
        for (size_t k = 0; k < kept[i].bytes / PAGE; k++) pages += resident[k] & 1;
    }
    return pages * PAGE;
}

// --- The calls -----------------------------------------------------------------------------------

static bool is_refused(void) {
    return refusals.one_in != 0 && draw(refusals.one_in) == 0;
}

static long remap(const greg_t* r, long start, long old_bytes, long bytes, long flags, long to) {
    (void)r;
    if (refusals.age == SYSTEM_BEFORE_5_7 && (flags & DONT_UNMAP) != 0) return -EINVAL;
    // Several mappings: it unmaps the target first, and then refuses.
    if (refusals.age != SYSTEM_NEW && bytes >= old_bytes && draw(3) == 0) {
        if ((flags & MREMAP_FIXED) != 0 && raw(SYS_munmap, to, bytes, 0, 0, 0, 0) == 0)
            occupy((char*)to, (size_t)bytes);
        return -EFAULT;
    }
    long result = raw(SYS_mremap, start, old_bytes, bytes, flags, to, 0);
    if (result < 0 && result > -PAGE) return result;
    if (result == start && bytes < old_bytes)
        occupy((char*)start + bytes, (size_t)(old_bytes - bytes));
    if (result != start && (flags & DONT_UNMAP) == 0) occupy((char*)start, (size_t)old_bytes);
    return result;
}

static long advise(long start, long bytes, long advice) {
    bool is_newer = advice == POPULATE_WRITE || advice == DONTNEED_LOCKED || advice >= GUARD_FIRST;
    if (refusals.age >= SYSTEM_BEFORE_5_14 && is_newer) return -EINVAL;
    if (refusals.age == SYSTEM_BEFORE_6_17 && advice >= GUARD_FIRST) return -EINVAL;
    return raw(SYS_madvise, start, bytes, advice, 0, 0, 0);
}

// SIGSYS stays unblocked: if it were blocked, the system would end the process.
static long block_signals(long how, const uint64_t* set, long old, long size) {
    uint64_t copy = set == NULL ? 0 : *set;
    if (how != SIG_UNBLOCK) copy &= ~(UINT64_C(1) << (SIGSYS - 1));
    return raw(SYS_rt_sigprocmask, how, set == NULL ? 0 : (long)&copy, old, size, 0, 0);
}

// What makes a thread or ends one is made at its own place, and with it the rest of the call.
static bool passes_from_here(long number) {
    return number == SYS_clone || number == SYS_clone3 || number == SYS_fork ||
           number == SYS_vfork || number == SYS_exit || number == SYS_exit_group ||
           number == SYS_execve;
}

static void at_call(int signal, siginfo_t* info, void* context) {
    (void)signal;
    (void)info;
    greg_t* r = ((ucontext_t*)context)->uc_mcontext.gregs;
    long a = r[REG_RDI], b = r[REG_RSI], c = r[REG_RDX], d = r[REG_R10], e = r[REG_R8];
    long number = r[REG_RAX];
    long result;
    if (passes_from_here(number)) {
        if ((number == SYS_clone || number == SYS_clone3) && is_refused()) {
            r[REG_RAX] = -EAGAIN;
            return;
        }
        selector = PASS_ALL;
        r[REG_RIP] -= 2; // the instruction again
        return;
    }
    bool may_be_refused = number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||
                          number == SYS_madvise || number == SYS_mprotect;
    if (may_be_refused && is_refused()) {
        note_refused(number, a, (size_t)b, c);
        r[REG_RAX] = -ENOMEM;
        return;
    }
    unmap_refused = 0;
    switch (number) {
    case SYS_mremap:
        result = remap(r, a, b, c, d, e);
        break;
    case SYS_madvise:
        result = advise(a, b, c);
        break;
    case SYS_rt_sigprocmask:
        result = block_signals(a, (const uint64_t*)b, c, d);
        break;
    case SYS_munmap:
        result = raw(number, a, b, 0, 0, 0, 0);
        if (result == 0) occupy((char*)a, (size_t)b);
        break;
    case SYS_futex:
        if ((b & FUTEX_CMD_MASK) == FUTEX_WAIT && is_refused()) {
            result = -EINTR;
            break;
        } // fall through
    default:
        result = raw(number, a, b, c, d, e, r[REG_R9]);
    }
    r[REG_RAX] = result;
}

bool refuse_prepare(uint64_t seed) {
    struct {
        void (*handler)(int, siginfo_t*, void*);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } action = {at_call, SA_SIGINFO | 0x04000000 /* SA_RESTORER */, refuse_restorer, 0};
    state = seed;
    selector = PASS_ALL;
    if (raw(SYS_rt_sigaction, SIGSYS, (long)&action, 0, 8, 0, 0) != 0) return false;
    long from = (long)__start_refuse_text;
    return raw(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, from,
               (long)__stop_refuse_text - from, (long)&selector, 0) == 0;
}

void refuse_enter(void) {
    if (refusals.one_in != 0 || refusals.occupies || refusals.age != SYSTEM_NEW)
        selector = STOP_ALL;
}
void refuse_leave(void) {
    selector = PASS_ALL;
}

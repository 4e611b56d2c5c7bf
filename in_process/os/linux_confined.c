// A thread by a plain clone: the C library does not know it, so its shortcuts for processes of one
// thread stay (stdio's locks, __libc_single_threaded), and changing the user does not involve it.
//
// Thread-local variables exist, with their initial values, as far as they are in static
// thread-local storage: errno and Keel's own are. Everything else of the C library's thread is
// zero. Keel's code on this thread calls nothing of the C library but system calls, the clock and
// memory functions.
#include "base/bits.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/memory_checker.h"
#include "os/thread.h"
#include <errno.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HAS_CONFINED 0 // they keep state for each thread of the C library
#elif !defined(KEEL_TLS_IS_STATIC)
#define HAS_CONFINED 0 // the C library provides thread-local storage at its first use
#elif defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#define HAS_CONFINED 1
#else
#define HAS_CONFINED 0
#endif

#if HAS_CONFINED

#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)64 << 10)
#define GUARD_BYTES ((size_t)64 << 10)   // also a multiple of large system pages
#define STATIC_MAX ((size_t)1 << 20)     // more static thread-local storage than this: no thread
#define CONTROL_BYTES ((size_t)16 << 10) // the C library's record of a thread; it uses about 2,500
#define TIMER_SLACK_NS 1000ul            // else each of the keeper's short sleeps takes 50 µs more

static char* thread_memory; // guard, stack, thread-local storage; kept for the next thread
static size_t static_bytes; // of thread-local storage on one side of the thread pointer
// Not 0: the thread exists. The system clears it when the thread no longer uses its stack.
static atomic_state thread_number;

// --- Thread-local storage ------------------------------------------------------------------------

// x86-64: storage ends at the thread pointer, and the record begins there. arm64: the record ends
// at the thread pointer, and storage begins there.
#if defined(__x86_64__)
#define STORAGE_IS_BELOW 1
#else
#define STORAGE_IS_BELOW 0
#endif

static char* thread_pointer(void) {
    return __builtin_thread_pointer();
}

// Absent from programs that are linked statically, which cannot open Keel late.
extern void* __tls_get_addr(size_t* module_and_offset) __attribute__((weak));

// Keel's own thread-local variables: where they begin, and their initial values.
static struct {
    ptrdiff_t offset; // from the thread pointer
    const void* image;
    size_t image_bytes;
} own_storage;

static bool is_own(const struct dl_phdr_info* module) {
    for (unsigned i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr)* header = &module->dlpi_phdr[i];
        if (header->p_type != PT_LOAD) continue;
        uintptr_t begin = module->dlpi_addr + header->p_vaddr;
        if ((uintptr_t)&thread_memory - begin < header->p_memsz) return true;
    }
    return false;
}

// Stores the number of Keel's own module if the C library does not report its storage.
static int find_unreported(struct dl_phdr_info* module, size_t size, void* number) {
    (void)size;
    if (module->dlpi_tls_data == NULL && is_own(module)) *(size_t*)number = module->dlpi_tls_modid;
    return 0;
}

// If dlopen loaded Keel, its variables are in static storage as well, but the C library reports
// this (dlpi_tls_data) only after the first access through __tls_get_addr. Keel's own accesses do
// not call that function.
static void make_reported(void) {
    size_t index[2] = {0, 0};
    (void)dl_iterate_phdr(find_unreported, &index[0]);
    if (index[0] != 0 && __tls_get_addr != NULL) (void)__tls_get_addr(index);
}

// How far this module's storage reaches from the thread pointer. 0: it is not in the static part.
static size_t reach_of(const struct dl_phdr_info* module, const ElfW(Phdr) * header) {
    if (header->p_type != PT_TLS || module->dlpi_tls_data == NULL) return 0;
    uintptr_t data = (uintptr_t)module->dlpi_tls_data;
    uintptr_t pointer = (uintptr_t)thread_pointer();
    size_t reach = STORAGE_IS_BELOW ? pointer - data : data + header->p_memsz - pointer;
    return reach <= STATIC_MAX ? reach : 0;
}

static int find_storage(struct dl_phdr_info* module, size_t size, void* largest) {
    (void)size;
    bool own = is_own(module);
    for (unsigned i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr)* header = &module->dlpi_phdr[i];
        size_t reach = reach_of(module, header);
        if (reach > *(size_t*)largest) *(size_t*)largest = reach;
        if (reach == 0 || !own) continue;
        own_storage.offset = (char*)module->dlpi_tls_data - thread_pointer();
        own_storage.image = (const char*)module->dlpi_addr + header->p_vaddr;
        own_storage.image_bytes = header->p_filesz;
    }
    return 0;
}

// The C library's list of modules has a lock. A thread may hold it during a fork, and then it stays
// locked in the child. Therefore no later call looks at this list. Modules that are loaded later
// have their variables farther from the thread pointer, and the thread does not use them.
void os_confined_prepare(void) {
    size_t reach = 0;
    if (os_valgrind_runs()) return; // it ends a process that makes such a thread
    make_reported();
    (void)dl_iterate_phdr(find_storage, &reach);
    // Without Keel's own variables the thread would use its stack in their place.
    size_t own = (size_t)((uintptr_t)thread_pointer() - (uintptr_t)&os_lock_holds_all);
    if (reach == 0 || (STORAGE_IS_BELOW ? own : 0 - own) > reach) return;
    static_bytes = round_up(reach, 64);
}

// Returns the new thread's pointer.
static char* storage_begin(char* memory) {
    memset(memory, 0, static_bytes + CONTROL_BYTES);
    char* pointer = memory + (STORAGE_IS_BELOW ? static_bytes : CONTROL_BYTES);
    memcpy(pointer + own_storage.offset, own_storage.image, own_storage.image_bytes);
#if defined(__x86_64__)
    // The words of the record that the ABI defines: itself twice, and the stack protector's value.
    uintptr_t* record = (uintptr_t*)pointer;
    record[0] = record[2] = (uintptr_t)pointer;
    record[5] = ((const uintptr_t*)thread_pointer())[5];
#endif
    return pointer;
}

// --- The filter ----------------------------------------------------------------------------------

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARGUMENT(n)                                                                           \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), RETURN(SECCOMP_RET_ALLOW)
// Allows the call if its protection, the third argument, makes nothing executable.
#define ALLOW_DATA(name)                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOAD_ARGUMENT(2),                       \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),  \
        RETURN(SECCOMP_RET_ALLOW)
#define LOAD_ARGUMENT_HIGH(n)                                                                      \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#define DENY_UNLESS_ZERO                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), RETURN(SECCOMP_RET_ERRNO | EPERM)
// Allows to read limits of this process, but not to set any: the new limit must be NULL.
#define ALLOW_READING_LIMITS                                                                       \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 10), LOAD_ARGUMENT(0), DENY_UNLESS_ZERO, \
        LOAD_ARGUMENT(2), DENY_UNLESS_ZERO, LOAD_ARGUMENT_HIGH(2), DENY_UNLESS_ZERO,               \
        RETURN(SECCOMP_RET_ALLOW)

// From now on this thread can manage the process's memory, sleep and end, and nothing else: a
// program that gives up privileges, or enters a sandbox, leaves no thread behind that has more.
static bool confine(void) {
    static struct sock_filter rules[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        RETURN(SECCOMP_RET_KILL_THREAD),
        LOAD(nr),
        ALLOW(madvise),
        ALLOW(futex),
        ALLOW(munmap),
        ALLOW(mincore),
        ALLOW(clock_gettime),
        ALLOW(membarrier),
        ALLOW(getrandom),
        ALLOW(pread64), // of stat_file: it has no other file
        ALLOW(exit),
        ALLOW_DATA(mmap),
        ALLOW_DATA(mprotect),
        ALLOW_READING_LIMITS,
        RETURN(SECCOMP_RET_ERRNO | EPERM),
    };
    static const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    // Not prctl, which libkeel replaces (allocator/api/namespaces.c).
    return syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

// --- The starting thread -------------------------------------------------------------------------

// The confined thread must not keep a process alive whose own threads have ended without
// exit_group (a filter of seccomp can end a thread; strict mode permits only that). Therefore the
// thread that starts it holds a robust mutex: the system marks it when its holder ends in any way.
static pthread_mutex_t starter;
static bool starter_is_held;

static atomic_state* starter_word(void) {
    return (atomic_state*)(void*)&starter; // of glibc's mutexes, the lock is the first word
}

bool os_confined_is_orphan(void) {
    return (atomic_get(starter_word()) & FUTEX_OWNER_DIED) != 0;
}

static bool starter_hold(void) {
    pthread_mutexattr_t robust;
    if (starter_is_held && !os_confined_is_orphan()) return true;
    (void)pthread_mutexattr_init(&robust);
    (void)pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    starter_is_held =
        pthread_mutex_init(&starter, &robust) == 0 && pthread_mutex_lock(&starter) == 0;
    return starter_is_held;
}

// The confined thread is then the process's last one, so its exit code is that of the process. It
// should be the one with which the starting thread ended: the last number of this file.
static int stat_file = -1;

static void stat_open(void) {
    stat_file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
}

static int exit_code(void) {
    char text[1024];
    if (!os_confined_is_orphan() || stat_file < 0) return 0;
    ssize_t length = pread(stat_file, text, sizeof text, 0);
    unsigned code = 0;
    for (ssize_t i = 0; i < length; i++) {
        if (text[i] == ' ') code = 0;
        if (text[i] >= '0' && text[i] <= '9') code = code * 10 + (unsigned)(text[i] - '0');
    }
    // A thread cannot pass on the signal that ended another one: as shells report it.
    return code % 128 != 0 ? 128 + (int)(code % 128) : (int)(code >> 8 & 255);
}

// --- The thread ----------------------------------------------------------------------------------

static struct os_confined* work;
static atomic_state refused; // the system does not confine threads
static bool has_own_files;

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// Linux 5.9 and later.
static bool can_close_all(void) {
    return syscall(SYS_close_range, ~0u, ~0u, 0) == 0;
}

static int thread_main(void* unused) {
    (void)unused;
    os_thread_is_own = true;
    if (has_own_files) (void)syscall(SYS_close_range, 0, ~0u, 0);
    (void)syscall(SYS_prctl, PR_SET_NAME, "keel-keeper", 0, 0, 0);
    (void)syscall(SYS_prctl, PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    struct sched_param ordinary = {0};
    (void)syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &ordinary);
    if (has_own_files) {
        work->prepare();
        stat_open();
    }
    if (confine())
        work->run();
    else
        atomic_set(&refused, 1); // for the next start
    int code = exit_code();
    work->end();
    return code;
}

static bool memory_map(void) {
    if (static_bytes == 0) return false;
    size_t bytes = round_up(GUARD_BYTES + STACK_BYTES + static_bytes + CONTROL_BYTES, GUARD_BYTES);
    char* memory = os_map(bytes, os_page_bytes());
    if (memory == NULL) return false;
    (void)mprotect(memory, GUARD_BYTES, PROT_NONE);
    thread_memory = memory;
    return true;
}

// The thread has its own table of files, and closes all files in it at once. If it shared the
// program's table, the files that it opens would take numbers that the program expects to get, and
// the program could replace them.
static bool thread_begin(char* stack_end, char* pointer) {
    has_own_files = can_close_all();
    if (!has_own_files) work->prepare();
    int flags = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | (has_own_files ? 0 : CLONE_FILES);
    return clone(thread_main, stack_end, flags, NULL, &thread_number, pointer, &thread_number) > 0;
}

bool os_confined_start(struct os_confined* wanted) {
    int saved = errno;
    sigset_t all, before;
    bool started = false;
    if (atomic_get_acquire(&thread_number) != 0 || atomic_get(&refused) != 0) return false;
    if (thread_memory == NULL && !memory_map()) return false;
    char* stack_end = thread_memory + GUARD_BYTES + STACK_BYTES;
    char* pointer = storage_begin(stack_end);
    work = wanted;
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSYS); // a sandbox that answers system calls by a signal stays able to
    if (starter_hold() && sigprocmask(SIG_BLOCK, &all, &before) == 0) {
        started = thread_begin(stack_end, pointer);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
    }
    errno = saved;
    return started;
}

bool os_confined_exists(void) {
    return atomic_get_acquire(&thread_number) != 0;
}

void os_confined_forget(void) {
    atomic_set(&thread_number, 0);
    starter_is_held = false;
}

#else

bool os_confined_start(struct os_confined* wanted) {
    (void)wanted;
    return false;
}
bool os_confined_exists(void) {
    return false;
}
bool os_confined_is_orphan(void) {
    return false;
}
void os_confined_prepare(void) {}
void os_confined_forget(void) {}

#endif

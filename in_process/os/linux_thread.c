#include "os/confined.h"
#include "os/linux_optional.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/thread.h"
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define STACK_BYTES ((size_t)128 * 1024) // besides thread-local storage

KEEL_TLS bool os_thread_is_own;

static const char* single_threaded; // the C library's variable, or NULL

bool os_process_has_one_thread(void) {
    return single_threaded != NULL && *(const volatile char*)single_threaded != 0;
}

OPTIONAL(pthread_attr_setstacksize);
OPTIONAL(pthread_create);
OPTIONAL(pthread_join);
OPTIONAL(pthread_key_create);
OPTIONAL(pthread_setspecific);

// Also finds what the program has loaded since its start.
static void* find(void* linked, const char* name) {
    return linked != NULL ? linked : os_symbol(name);
}
#define FIND(name) find((void*)(name), #name)

typedef void exit_function(void* value);
static exit_function* on_thread_exit;
static atomic_word exit_set;  // the address of pthread_setspecific; 0: not found
static atomic_state exit_key; // and 1; 0: none

uint32_t os_thread_id(void) {
    return (uint32_t)os_call(SYS_gettid);
}

// A later look would wait for a lock of the loader, which the child of a fork can inherit.
static void exit_key_make(void) {
    int (*create)(pthread_key_t * key, void (*on_exit)(void*));
    pthread_key_t key;
    uint32_t expected = 0;
    *(void**)&create = FIND(pthread_key_create);
    if (create == NULL) return;
    atomic_set(&exit_set, (uintptr_t)FIND(pthread_setspecific)); // the same in each thread
    if (create(&key, on_thread_exit) != 0) return;
    (void)atomic_try_state(&exit_key, &expected, (uint32_t)key + 1); // of several, one is used
}

void os_thread_exit_register(void (*on_exit)(void* value)) {
    on_thread_exit = on_exit;
    exit_key_make();
}

void os_thread_exit_arm(void* value) {
    if (on_thread_exit == NULL) return;
    if (atomic_get(&exit_key) == 0 || atomic_get(&exit_set) == 0) exit_key_make();
    uint32_t key = atomic_get(&exit_key);
    int (*set)(pthread_key_t key, const void* value);
    *(void**)&set = (void*)atomic_get(&exit_set);
    if (key != 0 && set != NULL) (void)set((pthread_key_t)(key - 1), value);
}

// A thread inherits the scheduling of the one that starts it: that may be a realtime thread, or
// have a processor of its own.
static void schedule_as_process(void) {
    unsigned long set[128]; // 8,192 processors
    if (!os_may_look()) return;
    intptr_t policy = os_call(SYS_sched_getscheduler, 0);
    struct sched_param none = {0};
    if (policy == SCHED_FIFO || policy == SCHED_RR)
        (void)os_call(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
    intptr_t bytes = os_call(SYS_sched_getaffinity, os_call(SYS_getpid), sizeof set, set);
    if (bytes > 0) (void)os_call(SYS_sched_setaffinity, 0, bytes, set);
}

static void* thread_main(void* run) {
    os_thread_is_own = true;
    schedule_as_process();
    void (*function)(void);
    *(void**)&function = run;
    function();
    return NULL;
}

static int add_tls_bytes(struct dl_phdr_info* image, size_t size, void* total) {
    (void)size;
    for (unsigned i = 0; i < image->dlpi_phnum; i++) {
        const ElfW(Phdr)* header = &image->dlpi_phdr[i];
        if (header->p_type == PT_TLS) *(size_t*)total += header->p_memsz + header->p_align;
    }
    return 0;
}

// glibc stores a thread's static thread-local storage on its stack, and refuses a stack that is too
// small for it.
static size_t tls_bytes;

// Not at the start of a thread: in the child of a fork, the C library's lock of the list of modules
// may stay locked by a thread that the child does not have.
void os_thread_prepare(void) {
    size_t bytes = 0;
    single_threaded = os_symbol("__libc_single_threaded");
    (void)dl_iterate_phdr(add_tls_bytes, &bytes);
    tls_bytes = bytes;
}

// All but the one by which a sandbox may answer system calls, and the three that C libraries use
// among their threads.
static os_signals signals_of_others(void) {
    enum { FIRST_INTERNAL = 32, INTERNAL = 3 };
    return ~(os_signal(SIGSYS) |
             ((os_signal(FIRST_INTERNAL) << INTERNAL) - os_signal(FIRST_INTERNAL)));
}

bool os_thread_start(struct os_thread* thread, void (*run)(void)) {
    int saved = errno;
    os_signals before;
    pthread_attr_t attributes;
    pthread_t handle;
    void* argument = *(void**)&run;
    bool started = false;
    int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    int (*set_stack)(pthread_attr_t*, size_t);
    *(void**)&create = FIND(pthread_create);
    *(void**)&set_stack = FIND(pthread_attr_setstacksize);
    if (create != NULL && set_stack != NULL && os_signals_block(signals_of_others(), &before)) {
        if (pthread_attr_init(&attributes) == 0) {
            (void)set_stack(&attributes, STACK_BYTES + tls_bytes);
            started = create(&handle, &attributes, thread_main, argument) == 0;
            (void)pthread_attr_destroy(&attributes);
        }
        os_signals_restore(before);
    }
    thread->handle = started ? (uintptr_t)handle : 0;
    atomic_set_release(&thread->known, 1);
    errno = saved;
    return started;
}

void os_thread_join(struct os_thread* thread) {
    int (*join)(pthread_t, void**);
    *(void**)&join = FIND(pthread_join);
    while (atomic_get_acquire(&thread->known) == 0) os_wait(&thread->known, 0, 1000);
    if (join != NULL && thread->handle != 0) (void)join((pthread_t)thread->handle, NULL);
}

void os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds) {
    struct timespec limit = {(time_t)(microseconds / 1000000),
                             (long)(microseconds % 1000000) * 1000};
    (void)os_call(SYS_futex, word, OS_FUTEX_WAIT, expected, &limit);
}

void os_wake(atomic_state* word) {
    (void)os_call(SYS_futex, word, OS_FUTEX_WAKE, 1);
}

void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)pthread_atfork(before, in_parent, in_child);
}

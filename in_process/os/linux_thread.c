#include "os/process.h"
#include "os/signals.h"
#include "os/thread.h"
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <time.h>

#define STACK_BYTES ((size_t)128 * 1024) // besides thread-local storage

KEEL_TLS bool os_thread_is_own;

static const char* single_threaded; // the C library's variable, or NULL

bool os_process_has_one_thread(void) {
    return single_threaded != NULL && *(const volatile char*)single_threaded != 0;
}

static pthread_key_t exit_key;
static bool exit_key_made;

uint32_t os_thread_id(void) {
    return (uint32_t)os_call(SYS_gettid);
}

bool os_thread_exit_register(void (*on_exit)(void* value)) {
    exit_key_made = pthread_key_create(&exit_key, on_exit) == 0;
    return exit_key_made;
}

void os_thread_exit_arm(void* value) {
    if (exit_key_made) (void)pthread_setspecific(exit_key, value);
}

static void* thread_main(void* run) {
    os_thread_is_own = true;
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

bool os_thread_start(void (*run)(void)) {
    int saved = errno;
    os_signals before;
    pthread_attr_t attributes;
    pthread_t thread;
    void* argument = *(void**)&run;
    bool started = false;
    if (os_signals_block(signals_of_others(), &before)) {
        if (pthread_attr_init(&attributes) == 0) {
            (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
            (void)pthread_attr_setstacksize(&attributes, STACK_BYTES + tls_bytes);
            started = pthread_create(&thread, &attributes, thread_main, argument) == 0;
            (void)pthread_attr_destroy(&attributes);
        }
        os_signals_restore(before);
    }
    errno = saved;
    return started;
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

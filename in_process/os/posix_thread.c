#include "os/thread.h"
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)128 * 1024) // besides thread-local storage

KEEL_TLS bool os_thread_is_own;

static pthread_key_t exit_key;
static bool exit_key_made;

uint32_t os_thread_id(void) {
    return (uint32_t)gettid();
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
    (void)dl_iterate_phdr(add_tls_bytes, &bytes);
    tls_bytes = bytes;
}

bool os_thread_start(void (*run)(void)) {
    int saved = errno;
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    void* argument = *(void**)&run;
    bool started = false;
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSYS); // a sandbox that answers system calls by a signal stays able to
    if (pthread_sigmask(SIG_BLOCK, &all, &before) == 0) {
        if (pthread_attr_init(&attributes) == 0) {
            (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
            (void)pthread_attr_setstacksize(&attributes, STACK_BYTES + tls_bytes);
            started = pthread_create(&thread, &attributes, thread_main, argument) == 0;
            (void)pthread_attr_destroy(&attributes);
        }
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    errno = saved;
    return started;
}

int os_cancel_disable(void) {
    int state = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void os_cancel_restore(int state) {
    (void)pthread_setcancelstate(state, NULL);
}

void os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds) {
    struct timespec limit = {(time_t)(microseconds / 1000000),
                             (long)(microseconds % 1000000) * 1000};
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &limit, NULL, 0);
    errno = saved;
}

void os_wake(atomic_state* word) {
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)pthread_atfork(before, in_parent, in_child);
}

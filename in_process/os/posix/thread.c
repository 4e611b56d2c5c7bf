// Threads, locks and waiting with the functions of POSIX. It has no wait for a word in memory.
//
// - A thread that waits for a lock gives its processor away, then sleeps for a moment: no mutex of
//   the C library, which a fork would have to hold, is behind a lock.
// - os_wait and os_wake share one condition variable. Only the keeper and threads that report a
//   fault wait there. The child of a fork has a new one.
#include "os/thread.h"
#include "base/atomic.h"
#include "os/lock.h"
#include "os/process.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)128 * 1024)
#define LOCK_TIMEOUT_MS 100
#define YIELDS 16 // before a thread that waits for a lock sleeps
#define NAP_NS 200000L

// --- Locks ---------------------------------------------------------------------------------------

KEEL_TLS bool os_lock_holds_all;
KEEL_TLS bool os_lock_takes_over;

static void nap(void) {
    const struct timespec moment = {.tv_nsec = NAP_NS};
    int saved = errno, cancelled;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    (void)nanosleep(&moment, NULL);
    (void)pthread_setcancelstate(cancelled, NULL);
    errno = saved;
}

void os_lock_wait(struct os_lock* lock) {
    const uint64_t end_ms = os_lock_takes_over ? os_clock_ms() + LOCK_TIMEOUT_MS : UINT64_MAX;
    uint32_t expected = 0;
    for (unsigned waits = 0; !atomic_try_state(&lock->state, &expected, 1); waits++) {
        if (os_clock_ms() >= end_ms) break; // the thread is the holder now
        if (waits < YIELDS)
            (void)sched_yield();
        else
            nap();
        expected = 0;
    }
}

// Nobody sleeps until it is woken: state 2 does not occur.
void os_lock_wake(struct os_lock* lock) {
    (void)lock;
}

// --- Waiting -------------------------------------------------------------------------------------

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} waiting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static struct timespec later_by(uint32_t microseconds) {
    struct timespec time = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += (time_t)(microseconds / 1000000);
    time.tv_nsec += (long)(microseconds % 1000000) * 1000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

void os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds) {
    const struct timespec limit = later_by(microseconds);
    int saved = errno, cancelled;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    (void)pthread_mutex_lock(&waiting.mutex);
    if (atomic_get(word) == expected)
        (void)pthread_cond_timedwait(&waiting.changed, &waiting.mutex, &limit);
    (void)pthread_mutex_unlock(&waiting.mutex);
    (void)pthread_setcancelstate(cancelled, NULL);
    errno = saved;
}

// The words of all threads that sleep share the variable; those for whom it was not call again.
void os_wake(atomic_state* word) {
    (void)word;
    (void)pthread_mutex_lock(&waiting.mutex);
    (void)pthread_cond_broadcast(&waiting.changed);
    (void)pthread_mutex_unlock(&waiting.mutex);
}

// --- Threads -------------------------------------------------------------------------------------

KEEL_TLS bool os_thread_is_own;

// POSIX has no number of a thread: each gets one at its first call.
uint32_t os_thread_id(void) {
    static atomic_state last;
    static KEEL_TLS uint32_t own;
    if (own == 0) own = atomic_add(&last, 1) + 1;
    return own;
}

static pthread_key_t exit_key;
static bool exit_key_made;

void os_thread_exit_register(void (*on_exit)(void* value)) {
    exit_key_made = pthread_key_create(&exit_key, on_exit) == 0;
}

void os_thread_exit_arm(void* value) {
    if (exit_key_made) (void)pthread_setspecific(exit_key, value);
}

void os_thread_prepare(void) {}

bool os_process_has_one_thread(void) {
    return false;
}

static void* thread_main(void* run) {
    os_thread_is_own = true;
    void (*function)(void);
    *(void**)&function = run;
    function();
    return NULL;
}

// Not with the scheduling of the thread that starts it, which may be a realtime thread: POSIX
// leaves the default to the system. glibc takes the priority, too, from that thread unless it is
// set.
static void schedule_as_usual(pthread_attr_t* attributes) {
    struct sched_param usual;
    if (pthread_attr_getschedparam(attributes, &usual) != 0) return;
    (void)pthread_attr_setschedpolicy(attributes, SCHED_OTHER);
    (void)pthread_attr_setschedparam(attributes, &usual);
    (void)pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
}

// With all of the system's defaults if `stack_bytes` is 0.
static bool thread_create(pthread_t* thread, size_t stack_bytes, void* run) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    if (stack_bytes != 0) {
        (void)pthread_attr_setstacksize(&attributes, stack_bytes);
        schedule_as_usual(&attributes);
    }
    bool started = pthread_create(thread, &attributes, thread_main, run) == 0;
    (void)pthread_attr_destroy(&attributes);
    return started;
}

// A stack may be too small for the thread-local variables of the program, whose size POSIX does not
// state: then the thread gets the usual one.
bool os_thread_start(struct os_thread* thread, void (*run)(void)) {
    int saved = errno;
    pthread_t handle;
    sigset_t all, before;
    void* argument = *(void**)&run;
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSYS);
    bool started = pthread_sigmask(SIG_BLOCK, &all, &before) == 0;
    if (started) {
        started = thread_create(&handle, STACK_BYTES + (least > 0 ? (size_t)least : 0), argument) ||
                  thread_create(&handle, 0, argument);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    thread->handle = started ? (uintptr_t)handle : 0;
    atomic_set_release(&thread->known, 1);
    errno = saved;
    return started;
}

void os_thread_join(struct os_thread* thread) {
    while (atomic_get_acquire(&thread->known) == 0) nap();
    if (thread->handle != 0) (void)pthread_join((pthread_t)thread->handle, NULL);
}

#if defined(__x86_64__)
bool os_order_threads(void) {
    atomic_order_for_signals();
    return true;
}
#else
bool os_order_threads(void) {
    return false;
}
#endif

// --- Fork ----------------------------------------------------------------------------------------

static void (*run_in_child)(void);

static void in_child_of_fork(void) {
    // Another thread may have held it, which the child does not have.
    waiting.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    waiting.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    run_in_child();
}

void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    run_in_child = in_child;
    (void)pthread_atfork(before, in_parent, in_child_of_fork);
}

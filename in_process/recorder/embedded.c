/* The embeddable recorder: keel/recorder.h on top of the rings. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "keel/recorder.h"
#include "log.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

/* The process in which some thread is starting or stopping a recording; 0: none. A child may have been
 * forked meanwhile. */
static _Atomic pid_t changing;

static bool change_begin(void) {
    pid_t self = getpid();
    pid_t holder = atomic_load(&changing);
    while (holder != self) {
        if (atomic_compare_exchange_weak(&changing, &holder, self)) return true;
    }
    return false;
}

static void change_end(void) {
    atomic_store(&changing, 0);
}

static void gate_open(void) {
    __atomic_store_n(&kl_record_gate.on, 1, __ATOMIC_RELEASE);
}

/* `keel record --embedded` started us: the session has been joined by thread.c's constructor, or is
 * now. */
__attribute__((constructor)) static void embedded_load(void) {
    if (recording()) gate_open();
}

/* Ends what is recorded from inside. Returns 0 or the errno of the file. */
static int end(void) {
    session_stop(KL_STOP_PROGRAM);
    session_wait_for_all();
    /* Events under way are nanoseconds from their end. */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    bool full = __atomic_load_n(&session.spool->stopped, __ATOMIC_ACQUIRE) == KL_STOP_DISK_FULL;
    int error = full ? ENOSPC : log_end();
    log_release();
    return error;
}

static int begin(const char* path) {
    if (session.own_log != 0) end(); /* it had ended by itself */
    session_wait_for_all();
    int error = log_start(path);
    if (error != 0) return error;
    __atomic_fetch_add(&session.number, 1, __ATOMIC_RELEASE);
    atomic_store_explicit(&session_page.state, SESSION_ON, memory_order_release);
    gate_open();
    return 0;
}

EXPORT int kl_record_start(const char* path) {
    if (path == NULL || path[0] == '\0') return EINVAL;
    /* Asked first: a forked child finds out here that nothing of its parent's is its own. */
    bool from_outside = !recording() && session.spool != NULL && session.own_log == 0;
    if (!change_begin()) return EBUSY;
    int saved_errno = errno;
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    int error = recording() || from_outside ? EALREADY : begin(path);
    pthread_setcancelstate(cancelling, NULL);
    errno = saved_errno;
    change_end();
    return error;
}

EXPORT int kl_record_stop(void) {
    recording(); /* as above */
    if (!change_begin()) return EBUSY;
    int saved_errno = errno;
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    int error = session.own_log != 0 ? end() : EINVAL;
    pthread_setcancelstate(cancelling, NULL);
    errno = saved_errno;
    change_end();
    return error;
}

/* Not in a forked child, whose gate is off. */
__attribute__((destructor)) static void embedded_unload(void) {
    if (kl_record_gate.on != 0 && session.own_log != 0) kl_record_stop();
}

/* ---- events */

EXPORT void kl_record_alloc_from(const void* block, size_t size, const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    tell(KL_RING_MALLOC, ticks(), block, size, from);
}

EXPORT void kl_record_calloc_from(const void* block, size_t size, const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    tell(KL_RING_CALLOC, ticks(), block, size, from);
}

EXPORT void kl_record_aligned_from(const void* block, size_t align, size_t size,
                                   const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    tell(KL_RING_ALIGNED, ticks(), block, size_with_align(size, align), from);
}

static void free_told(const void* block, uint64_t told, const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    tell(KL_RING_FREE, ticks_of_free(), block, told, from);
}

EXPORT void kl_record_free_from(const void* block, const void* caller) {
    free_told(block, 0, caller);
}

EXPORT void kl_record_free_sized_from(const void* block, size_t size, const void* caller) {
    free_told(block, told_size(size), caller);
}

EXPORT void kl_record_free_aligned_sized_from(const void* block, size_t align, size_t size,
                                              const void* caller) {
    free_told(block, told_size(size) | told_align(align), caller);
}

EXPORT void kl_record_realloc_begin_from(const void* old_block, size_t size, const void* caller) {
    if (!recording()) return;
    uint64_t from = origin(caller);
    if (old_block == NULL) {
        recorder_thread.realloc_origin = from;
        return;
    }
    tell(KL_RING_REALLOC_BEGIN, ticks(), old_block, size, from);
}

EXPORT void kl_record_realloc_end_from(const void* old_block, const void* new_block, size_t size) {
    if (!recording()) return;
    if (old_block != NULL) {
        tell(KL_RING_REALLOC_END, ticks(), new_block, size, (uint64_t)old_block & KL_EXTRA_MASK);
    } else if (new_block != NULL) {
        tell(KL_RING_REALLOC_NULL, ticks(), new_block, size, recorder_thread.realloc_origin);
    }
}

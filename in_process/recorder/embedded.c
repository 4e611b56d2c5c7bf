/* The embeddable recorder: keel/recorder.h on top of the rings. */
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "keel/recorder.h"
#include "log.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

static void gate_set(unsigned on) {
    __atomic_store_n(&kl_record_gate.on, on, __ATOMIC_RELEASE);
}

/* `keel record --embedded` started us: the session has been joined by thread.c's constructor, or is
 * now. */
__attribute__((constructor)) static void embedded_load(void) {
    if (recording()) gate_set(1);
}

EXPORT int kl_record_start(const char* path) {
    static atomic_flag used = ATOMIC_FLAG_INIT;
    if (path == NULL || path[0] == '\0') return EINVAL;
    if (recording() || atomic_flag_test_and_set(&used)) return EALREADY;
    int saved_errno = errno;
    int error = log_start(path);
    if (error == 0) {
        atomic_store_explicit(&session_page.state, SESSION_ON, memory_order_release);
        gate_set(1);
    } else {
        atomic_flag_clear(&used);
    }
    errno = saved_errno;
    return error;
}

EXPORT int kl_record_stop(void) {
    if (session.own_log == 0 || session.spool == NULL) return EINVAL;
    uint32_t reason = __atomic_load_n(&session.spool->stopped, __ATOMIC_ACQUIRE);
    if (reason == KL_STOP_PROGRAM) return EINVAL;
    gate_set(0);
    if (reason == KL_STOP_DISK_FULL) return ENOSPC;
    session_stop(KL_STOP_PROGRAM);
    /* Events under way are nanoseconds from their end. */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    int saved_errno = errno;
    int error = log_end();
    errno = saved_errno;
    return error;
}

/* Not in a forked child, whose gate is off. */
__attribute__((destructor)) static void embedded_unload(void) {
    if (kl_record_gate.on != 0 && session.own_log != 0) kl_record_stop();
}

/* ---- events */

static bool gate_is_open(void) {
    if (recording()) return true;
    gate_set(0); /* the recording has ended by itself */
    return false;
}

EXPORT void kl_record_alloc_from(const void* block, size_t size, const void* caller) {
    if (block == NULL || !gate_is_open()) return;
    uint64_t from = origin(caller);
    record(KL_RING_MALLOC, ticks(), block, size, from);
}

EXPORT void kl_record_calloc_from(const void* block, size_t size, const void* caller) {
    if (block == NULL || !gate_is_open()) return;
    uint64_t from = origin(caller);
    record(KL_RING_CALLOC, ticks(), block, size, from);
}

EXPORT void kl_record_aligned_from(const void* block, size_t align, size_t size,
                                   const void* caller) {
    if (block == NULL || !gate_is_open()) return;
    uint64_t from = origin(caller);
    record(KL_RING_ALIGNED, ticks(), block, size_with_align(size, align), from);
}

static void free_told(const void* block, uint64_t told, const void* caller) {
    if (block == NULL || !gate_is_open()) return;
    uint64_t from = origin(caller);
    record(KL_RING_FREE, ticks_of_free(), block, told, from);
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
    if (!gate_is_open()) return;
    uint64_t from = origin(caller);
    if (old_block == NULL) {
        recorder_thread.realloc_origin = from;
        return;
    }
    record(KL_RING_REALLOC_BEGIN, ticks(), old_block, size, from);
}

EXPORT void kl_record_realloc_end_from(const void* old_block, const void* new_block, size_t size) {
    if (!gate_is_open()) return;
    if (old_block != NULL) {
        record(KL_RING_REALLOC_END, ticks(), new_block, size, (uint64_t)old_block & KL_EXTRA_MASK);
    } else if (new_block != NULL) {
        record(KL_RING_REALLOC_NULL, ticks(), new_block, size, recorder_thread.realloc_origin);
    }
}

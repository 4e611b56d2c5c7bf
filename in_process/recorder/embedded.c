// The embedded recorder: implements keel/recorder.h with the rings.
#include "base/atomic.h"
#include "base/attributes.h"
#include "keel/recorder.h"
#include "log.h"
#include "origin.h"
#include "system.h"
#include "thread.h"
#include <errno.h>

// The process of the thread that is starting or stopping a recording; 0: none. A value inherited
// from the parent of a fork is ignored.
static atomic_state changing;

static bool change_begin(void) {
    uint32_t self = system_process();
    uint32_t holder = atomic_get_ordered(&changing);
    while (holder != self) {
        if (atomic_try_ordered(&changing, &holder, self)) return true;
    }
    return false;
}

static void change_end(void) {
    atomic_set_ordered(&changing, 0);
}

static void gate_open(void) {
    atomic_set_release((atomic_state*)&kl_record_gate.on, 1);
}

// Joins the session of `keel record --embedded`, if the constructor of thread.c has not joined it.
__attribute__((constructor)) static void embedded_load(void) {
    if (recording()) gate_open();
}

// Ends a recording that this process began itself. Returns 0 or the errno of the file.
static int end(void) {
    session_stop(KL_STOP_PROGRAM);
    session_wait_for_all();
    // Events on the fast path end within nanoseconds.
    system_sleep_us(1000);
    return log_end(atomic_get_acquire(&session.spool->stopped) != KL_STOP_DISK_FULL);
}

static int begin(const char* path) {
    if (session.own_log != 0) end(); // after a failed write
    session_wait_for_all();
    int error = log_start(path);
    if (error != 0) return error;
    atomic_add_release(&session.number, 1);
    atomic_set_release(&session_page.state, SESSION_ON);
    gate_open();
    return 0;
}

KEEL_EXPORT int kl_record_start(const char* path) {
    if (path == NULL || path[0] == '\0') return EINVAL;
    // recording() comes first: in a forked child it resets the state inherited from the parent.
    bool from_outside = !recording() && session.spool != NULL && session.own_log == 0;
    if (!change_begin()) return EBUSY;
    struct system_state state = system_begin();
    int error = recording() || from_outside ? EALREADY : begin(path);
    system_end(state);
    change_end();
    return error;
}

KEEL_EXPORT int kl_record_stop(void) {
    recording(); // resets an inherited state, as in kl_record_start
    if (!change_begin()) return EBUSY;
    struct system_state state = system_begin();
    int error = session.own_log != 0 ? end() : EINVAL;
    system_end(state);
    change_end();
    return error;
}

// Does nothing in a forked child, because its gate is off. If the process has ended a thread that
// used the files, nobody may use them: they are as after a crash, from which all can be read.
__attribute__((destructor)) static void embedded_unload(void) {
    if (kl_record_gate.on == 0 || session.own_log == 0) return;
    if (system_has_threads() || atomic_get(&session.users) == 0) kl_record_stop();
}

// clang-format off
// ---- Events -------------------------------------------------------------------------------------
// clang-format on

KEEL_EXPORT void kl_record_alloc_from(const void* block, size_t size, const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    record_checked(KL_RING_MALLOC, ticks(), block, size, from);
}

KEEL_EXPORT void kl_record_calloc_from(const void* block, size_t size, const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    record_checked(KL_RING_CALLOC, ticks(), block, size, from);
}

KEEL_EXPORT void kl_record_aligned_from(const void* block, size_t align, size_t size,
                                        const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    record_checked(KL_RING_ALIGNED, ticks(), block, size_with_align(size, align), from);
}

static void free_hinted(const void* block, uint64_t hint, const void* caller) {
    if (block == NULL || !recording()) return;
    uint64_t from = origin(caller);
    record_checked(KL_RING_FREE, ticks(), block, hint, from);
}

KEEL_EXPORT void kl_record_free_from(const void* block, const void* caller) {
    free_hinted(block, 0, caller);
}

KEEL_EXPORT void kl_record_free_sized_from(const void* block, size_t size, const void* caller) {
    free_hinted(block, hint_size(size), caller);
}

KEEL_EXPORT void kl_record_free_aligned_sized_from(const void* block, size_t align, size_t size,
                                                   const void* caller) {
    free_hinted(block, hint_size(size) | hint_align(align), caller);
}

KEEL_EXPORT void kl_record_realloc_begin_from(const void* old_block, size_t size,
                                              const void* caller) {
    if (!recording()) return;
    uint64_t from = origin(caller);
    if (old_block == NULL) {
        recorder_thread.realloc_origin = from;
        return;
    }
    record_checked(KL_RING_REALLOC_BEGIN, ticks(), old_block, size, from);
}

KEEL_EXPORT void kl_record_realloc_end_from(const void* old_block, const void* new_block,
                                            size_t size) {
    if (!recording()) return;
    if (old_block != NULL) {
        record_checked(KL_RING_REALLOC_END, ticks(), new_block, size,
                       (uint64_t)old_block & KL_EXTRA_MASK);
    } else if (new_block != NULL) {
        record_checked(KL_RING_REALLOC_NULL, ticks(), new_block, size,
                       recorder_thread.realloc_origin);
    }
}

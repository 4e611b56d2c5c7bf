// The state of this process in a recording session: whether the process is recorded, and its spool.
// This file does not depend on threads.
#ifndef KEEL_RECORDER_SESSION_H
#define KEEL_RECORDER_SESSION_H

#include "base/atomic.h"
#include "base/attributes.h"
#include "journal/ring.h"
#include <stdbool.h>
#include <stdint.h>

enum session_state {
    // Not yet determined, or the process was just forked and the kernel wiped the page.
    SESSION_UNKNOWN = 0,
    SESSION_STARTING = 1,
    SESSION_ON = 2,
    SESSION_OFF = 3,
};

// The state has a system page of its own. The kernel wipes this page in a forked child
// (MADV_WIPEONFORK), for every call that creates a child.
struct session_page {
    KEEL_ALIGNED(KL_PAGE_BYTES) atomic_state state;
    char padding[KL_PAGE_BYTES - sizeof(uint32_t)];
};
extern struct session_page session_page;

struct session {
    struct kl_control* control;
    struct kl_spool* spool;
    struct kl_ring_entry* rings;
    uint32_t clock; // enum kl_clock
    atomic_state
        threaded;    // 1: a second thread has recorded, so times must be ordered across threads
    uint32_t stacks; // return addresses to record for each call; 0: only the caller
    uint64_t sample_bytes; // mean distance of samples; 0: everything is recorded
    uint64_t sample_seed;
    uint64_t slow_ticks; // allocations that take at least so long are slow; 0: they are not timed
    uint32_t own_log;    // 1: there is no reader; the threads write their rings to a file (log.h)
    // Number of recordings that this process has begun itself (keel/recorder.h). A thread whose
    // ring belongs to another recording takes a new one.
    atomic_state number;
    // Number of threads that use `spool` and `rings` at the moment. Only slow paths use them. The
    // next recording waits for these threads.
    atomic_state users;
};
// All fields except `threaded` and `users` are constant while the state is ON. Before another
// recording begins, spool and rings change, when no thread uses them. clock and stacks do not
// change.
extern struct session session;

KEEL_INLINE uint32_t session_state(void) {
    return atomic_get_acquire(&session_page.state);
}

// Changes the state from UNKNOWN to ON or OFF (or back to UNKNOWN if the C library is not
// initialised yet). During the call the state is STARTING, and only this thread is in the function.
// Preserves errno.
void session_start(void);

// Begins a recording of this process in the session `folder`, at any time. Returns 0 or an errno.
// EALREADY: it is recorded already.
int session_start_in(const char* folder);

// Releases the memory of the rings of an ended recording, if no thread uses it. A thread that was
// interrupted while it stored an event writes to unused memory instead.
bool session_release(void);

// Ends the recording of this process. The reader ignores events with later times.
void session_stop(enum kl_stop reason);

// session_enter and session_leave must surround every use of the spool or the rings. If
// session_enter returns false, the recording is over, and the caller must not call session_leave.
bool session_enter(void);
void session_leave(void);

// Waits until no thread uses the spool and the rings. The state must be OFF. A signal handler must
// not call it.
void session_wait_for_all(void);

// Fills in the header of `session.spool` and sets `ready`.
void session_describe(uint64_t magic);

// The ring with this index, which must have memory.
struct kl_ring* session_ring(uint32_t index);

// Reports to the reader that this process executes the file `path`, or with `in_child` that it
// starts the file in a child. `how` is that of a line of KL_EXECUTED_NAME. Works in a child between
// fork and exec. Changes errno.
void session_note_exec(char how, const char* path, bool in_child);

// Wakes the reader if it sleeps.
void session_ring_bell(void);

// Returns the reason why the recording must end: the reader requested it, or the reader's heartbeat
// has stopped and the reader is dead.
enum kl_stop session_must_stop(uint64_t* heartbeat, uint64_t* silent_since_ns);

// session_wait sleeps until `*word` differs from `expected`, or until the timeout. session_wake
// wakes this many of the threads that sleep on `*word`. Both work between processes.
void session_wait(_Atomic uint32_t* word, uint32_t expected, uint32_t timeout_ms);
void session_wake(_Atomic uint32_t* word, int threads);

#endif

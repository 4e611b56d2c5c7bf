// This process's part in a recording session: whether it is recorded, and its spool. Does not
// depend on threads.
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

// Alone on its page, which the kernel wipes in a forked child (MADV_WIPEONFORK), whichever call
// made the child.
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
        threaded;     // 1: a second thread has recorded, so times must be ordered across threads
    uint32_t stacks;  // return addresses to record for each call; 0: only the caller
    uint32_t own_log; // 1: there is no reader; the threads write their rings to a file (log.h)
    // Number of recordings that this process has begun itself (keel/recorder.h). A thread whose
    // ring belongs to another recording takes a new one.
    atomic_state number;
    // Threads that use `spool` and `rings`, which they do on slow paths only. The next recording
    // waits for them.
    atomic_state users;
};
// Constant while the state is ON, except `threaded` and `users`. Before another recording begins,
// spool and rings change while there is no user; clock and stacks do not change.
extern struct session session;

KEEL_INLINE uint32_t session_state(void) {
    return atomic_get_acquire(&session_page.state);
}

// Changes the state from UNKNOWN to ON or OFF (or back to UNKNOWN if the C library is not
// initialised yet). Meanwhile the state is STARTING, and only this thread is here. Preserves errno.
void session_start(void);

// Ends the recording of this process. The reader ignores events with later times.
void session_stop(enum kl_stop reason);

// Must surround every use of the spool or the rings. False: the recording is over, and the caller
// must not call session_leave.
bool session_enter(void);
void session_leave(void);

// Waits until there is no user. The state must be OFF; not for signal handlers.
void session_wait_for_all(void);

// Fills in the header of `session.spool` and sets `ready`.
void session_describe(uint64_t magic);

// Maps a file for both sides. A forked child does not inherit the mapping, so it cannot write into
// its parent's rings. NULL with errno on failure.
void* session_map(int file, size_t bytes);

// Writes the lines of /proc/self/maps for object files with code. Returns the length; lines that do
// not fit are omitted. Allocates nothing.
size_t session_maps(char* text, size_t bytes);

// The ring with this index, which must have memory.
struct kl_ring* session_ring(uint32_t index);

// Wakes the reader if it sleeps.
void session_ring_bell(void);

// Whether the recording must end: the reader asked for it, or its heartbeat has stopped and it is
// dead.
enum kl_stop session_must_stop(uint64_t* heartbeat, uint64_t* silent_since_ns);

// Sleeps until `*word` differs from `expected`, or until the timeout; wakes the sleepers on
// `*word`. Works between processes.
void session_wait(_Atomic uint32_t* word, uint32_t expected, uint32_t timeout_ms);
void session_wake(_Atomic uint32_t* word);

#endif

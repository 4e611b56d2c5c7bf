/* This process's part in a recording session: whether it is recorded, and its spool. Knows nothing
 * of threads. */
#ifndef KEEL_RECORDER_SESSION_H
#define KEEL_RECORDER_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "journal/ring.h"

enum session_state {
    SESSION_UNKNOWN =
        0, /* nobody has asked yet, or the process was just forked: the kernel wiped the page */
    SESSION_STARTING = 1,
    SESSION_ON = 2,
    SESSION_OFF = 3,
};

/* Alone on its page, which the kernel wipes in a forked child (MADV_WIPEONFORK), whatever call made
 * the child. */
struct session_page {
    _Alignas(KL_PAGE_BYTES) _Atomic uint32_t state;
    char padding[KL_PAGE_BYTES - sizeof(uint32_t)];
};
extern struct session_page session_page;

struct session {
    struct kl_control* control;
    struct kl_spool* spool;
    struct kl_ring_entry* rings;
    uint32_t clock;    /* enum kl_clock */
    uint32_t threaded; /* 1: a second thread has begun to record, so times must be in order across
                          threads */
    uint32_t stacks;   /* return addresses to record of each call; 0: only the caller */
    uint32_t own_log;  /* 1: nobody reads the rings; the threads empty them into a file (log.h) */
    uint32_t number;  /* of the recording in this process: counts up with each that it begins itself
                          (keel/recorder.h). A thread whose ring is of another takes a new one */
    uint32_t at_work; /* threads that look at `spool` and `rings`, which they do on slow paths only:
                          the next recording waits for them */
};
/* Constant while the state is ON, but for `threaded` and `at_work`. Before another recording begins,
 * spool and rings change while nobody is at work; clock and stacks stay. */
extern struct session session;

static inline uint32_t session_state(void) {
    return atomic_load_explicit(&session_page.state, memory_order_acquire);
}

/* Moves from UNKNOWN to ON or OFF (or back, when the C library is not up yet); the state is
 * STARTING meanwhile and the caller alone is here. Preserves errno. */
void session_start(void);

/* Ends the recording of this process. Events with later times are not the reader's to use. */
void session_stop(enum kl_stop reason);

/* Around whatever uses the spool or the rings. False: the recording is over, and nothing was entered. */
bool session_enter(void);
void session_leave(void);

/* Waits until nobody is inside. The state must be OFF; not for signal handlers. */
void session_wait_for_all(void);

/* Fills in the header of `session.spool`, which says how far it has come to `ready`. */
void session_describe(uint64_t magic);

/* Maps a file for both sides; a forked child does not inherit it, and so cannot write into its
 * parent's rings. NULL with errno. */
void* session_map(int file, size_t bytes);

/* The object files in the address space as lines of /proc/self/maps, those with code only. Returns
 * the length; what does not fit is left out. Allocates nothing. */
size_t session_maps(char* text, size_t bytes);

/* The ring with this index, which has memory. */
struct kl_ring* session_ring(uint32_t index);

/* Wakes the reader if it sleeps. */
void session_ring_bell(void);

/* Whether the recording must end: the reader asked for it, or has been dead for `waited_ns` of
 * silence. */
enum kl_stop session_must_stop(uint64_t* heartbeat, uint64_t* silent_since_ns);

/* Sleeps until `*word` is not `expected` any more, or for a time; wakes the sleepers on `*word`.
 * Between processes. */
void session_wait(uint32_t* word, uint32_t expected, uint32_t timeout_ms);
void session_wake(uint32_t* word);

#endif

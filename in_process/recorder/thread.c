#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"
#include "log.h"
#include "signals.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { WAIT_MS = 2, DESTRUCTOR_PASSES = 2 };

_Thread_local struct thread recorder_thread;

static _Atomic uint32_t thread_serials;
static pthread_key_t thread_key;
static bool thread_key_valid;

/* The compiler may not move accesses to the thread's fields across this; a signal handler reads
 * them. */
static inline void signal_fence(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

/* ---- waiting for the reader
 * ---------------------------------------------------------------------------------- */

static struct kl_ring* entry_ring(const struct kl_ring_entry* entry) {
    return session_ring((uint32_t)(entry - session.rings));
}

/* Makes room by writing the ring out ourselves. No handler may come to the same ring meanwhile. */
static bool ring_write_out(struct kl_ring_entry* entry, uint64_t needed) {
    struct kl_ring* ring = entry_ring(entry);
    if (needed <= ring->tail + entry->slots) return true;
    uint64_t began = ticks();
    sigset_t before = signals_block();
    bool written = log_write_ring(entry);
    signals_restore(before);
    ring->stalls++;
    ring->stalled_ticks += ticks() - began;
    if (!written) session_stop(KL_STOP_DISK_FULL);
    /* A hole that a handler of ours interrupted is not in the way: handlers nest less than half a
     * ring deep. */
    return written && needed <= ring->tail + entry->slots;
}

/* Waits until indexes below `needed` may be written. False: the recording has ended. */
static bool ring_wait(struct kl_ring_entry* entry, uint64_t needed) {
    struct kl_ring* ring = entry_ring(entry);
    uint32_t slots = entry->slots;
    if (session.own_log != 0) return ring_write_out(entry, needed);
    uint64_t heartbeat = 0;
    uint64_t silent_since = 0;
    uint64_t began = 0;
    bool room = true;
    for (;;) {
        uint32_t bell = __atomic_load_n(&ring->tail_bell, __ATOMIC_ACQUIRE);
        if (needed <= __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) + slots) break;
        if (began == 0) began = ticks();
        __atomic_store_n(&ring->waiting, 1, __ATOMIC_SEQ_CST);
        session_ring_bell();
        session_wait(&ring->tail_bell, bell, WAIT_MS);
        enum kl_stop stop = session_must_stop(&heartbeat, &silent_since);
        if (stop == KL_STOP_NONE) continue;
        session_stop(stop);
        room = false;
        break;
    }
    if (began != 0) {
        __atomic_store_n(&ring->waiting, 0, __ATOMIC_RELAXED);
        ring->stalls++;
        ring->stalled_ticks += ticks() - began;
    }
    return room;
}

/* ---- rings
 * ----------------------------------------------------------------------------------------------------
 */

static struct kl_ring_entry* ring_take_free(uint32_t prepared) {
    for (uint32_t index = 0; index < prepared; index++) {
        struct kl_ring_entry* entry = &session.rings[index];
        uint32_t expected = KL_RING_FREE_STATE;
        if (__atomic_load_n(&entry->state, __ATOMIC_RELAXED) != expected) continue;
        if (__atomic_compare_exchange_n(&entry->state, &expected, KL_RING_OWNED, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return entry;
        }
    }
    return NULL;
}

/* Takes a free ring; the reader makes new ones, so a thread needs no file to get one. NULL: the
 * recording has ended. */
static struct kl_ring_entry* ring_take(void) {
    struct kl_spool* spool = session.spool;
    uint64_t heartbeat = 0;
    uint64_t silent_since = 0;
    for (;;) {
        uint32_t prepared = __atomic_load_n(&spool->prepared, __ATOMIC_ACQUIRE);
        struct kl_ring_entry* entry = ring_take_free(prepared);
        if (entry != NULL) {
            if (session.own_log == 0) session_ring_bell();
            return entry;
        }
        enum kl_stop stop = KL_STOP_NONE;
        if (session.own_log != 0) {
            if (prepared < KL_RING_MAX && log_prepare_ring(prepared)) continue;
            stop = prepared < KL_RING_MAX ? KL_STOP_DISK_FULL : KL_STOP_NONE;
        } else {
            stop = session_must_stop(&heartbeat, &silent_since);
        }
        if (stop == KL_STOP_NONE && prepared == KL_RING_MAX) stop = KL_STOP_TOO_MANY_THREADS;
        if (stop != KL_STOP_NONE) {
            session_stop(stop);
            return NULL;
        }
        __atomic_fetch_add(&spool->wanted, 1, __ATOMIC_SEQ_CST);
        session_ring_bell();
        session_wait(&spool->prepared, prepared, WAIT_MS);
        __atomic_fetch_sub(&spool->wanted, 1, __ATOMIC_SEQ_CST);
    }
}

static void ring_give_back(struct kl_ring_entry* entry, uint64_t head) {
    entry_ring(entry)->head = head;
    __atomic_store_n(&entry->state, KL_RING_FREE_STATE, __ATOMIC_RELEASE);
}

static struct kl_ring_event thread_begin_event(struct thread* thread) {
    if (thread->serial == 0) thread->serial = atomic_fetch_add(&thread_serials, 1) + 1;
    /* The thread that made this one stored its events before it made it; from here on both read
     * ordered times. */
    if (thread->serial > 1) __atomic_store_n(&session.threaded, 1, __ATOMIC_RELAXED);
    uint64_t tid = (uint64_t)syscall(SYS_gettid);
    return (struct kl_ring_event){ticks(), tid, thread->serial, KL_RING_THREAD_BEGIN};
}

/* Records one event in a ring that is ours only for that. */
static void event_record_borrowed(struct thread* thread, struct kl_ring_event event) {
    struct kl_ring_entry* entry = ring_take();
    if (entry == NULL) return;
    struct kl_ring* ring = entry_ring(entry);
    struct kl_ring_event* slots = (struct kl_ring_event*)((char*)ring + KL_RING_HEADER_BYTES);
    uint64_t head = ring->head;
    if (ring_wait(entry, head + 2)) {
        unsigned shift = (unsigned)__builtin_ctz(entry->slots);
        uint64_t mask = entry->slots - 1;
        slot_publish(&slots[head & mask], thread_begin_event(thread), kl_ring_tag(head, shift));
        slot_publish(&slots[(head + 1) & mask], event, kl_ring_tag(head + 1, shift));
        head += 2;
    }
    ring_give_back(entry, head);
}

/* The index up to which room is asked for together with `index`: the end of its half lap. */
static uint64_t half_lap_end(uint64_t index, uint32_t slots) {
    uint64_t half = slots / 2;
    return (index / half + 1) * half;
}

/* Signals are blocked: no handler may see a ring half taken, since its claim of an index would leave a
 * slot that nobody fills. */
static void thread_use_ring(struct thread* thread, struct kl_ring_entry* entry) {
    struct kl_ring* ring = entry_ring(entry);
    uint64_t head = ring->head;
    thread->entry = entry;
    thread->ring = ring;
    thread->ring_slots = entry->slots;
    thread->mask = entry->slots - 1;
    thread->shift = (uint32_t)__builtin_ctz(entry->slots);
    thread->slots = (struct kl_ring_event*)((char*)ring + KL_RING_HEADER_BYTES);
    thread->limit = half_lap_end(head, entry->slots);
    slot_publish(&thread->slots[head & thread->mask], thread_begin_event(thread),
                 kl_ring_tag(head, thread->shift));
    thread->head = head + 1;
}

/* Gives the thread a ring of its own. False: the recording has ended. */
static bool thread_attach(struct thread* thread) {
    thread->busy = true; /* a handler's events borrow while we wait */
    signal_fence();
    if (thread->slots != NULL) { /* a handler's event took one just before */
        thread->busy = false;
        return true;
    }
    struct kl_ring_entry* entry = ring_take();
    bool room = entry != NULL;
    if (room) {
        struct kl_ring* ring = entry_ring(entry);
        if (entry != session.rings) madvise(ring, kl_ring_bytes(entry->slots), MADV_POPULATE_WRITE);
        room = ring_wait(entry, half_lap_end(ring->head, entry->slots));
        sigset_t before = signals_block();
        if (room) thread_use_ring(thread, entry);
        signals_restore(before);
    }
    signal_fence();
    thread->busy = false;
    /* May call calloc, which finds the ring in place. */
    if (room && thread_key_valid) pthread_setspecific(thread_key, thread);
    return room;
}

static bool thread_is_stale(const struct thread* thread) {
    return thread->recording != __atomic_load_n(&session.number, __ATOMIC_RELAXED);
}

static void thread_give_back(struct thread* thread) {
    char name[16] = "";
    uint64_t halves[2];
    prctl(PR_GET_NAME, name);
    memcpy(halves, name, sizeof halves);
    record(KL_RING_THREAD_END, ticks(), (const void*)halves[0], halves[1], 0);
    sigset_t before = signals_block();
    uint64_t head = thread->head;
    thread->closed = true;
    thread->limit = 0; /* from here on every event is slow, and borrows */
    thread->slots = NULL;
    ring_give_back(thread->entry, head);
    signals_restore(before);
}

/* Runs at the thread's end. Other libraries' destructors may still free, so it lets them go first
 * once. */
static void thread_detach(void* value) {
    struct thread* thread = value;
    if (session_state() != SESSION_ON || thread->slots == NULL) return;
    if (++thread->passes < DESTRUCTOR_PASSES) {
        pthread_setspecific(thread_key, thread);
        return;
    }
    if (!session_enter()) return;
    if (!thread_is_stale(thread)) thread_give_back(thread);
    session_leave();
}

/* ---- the slow path
 * -------------------------------------------------------------------------------------------- */

/* Room is granted up to the end of the half lap in which the index falls, so the reader is looked
 * at twice a lap. */
static void event_record_own(struct thread* thread, uint64_t index, struct kl_ring_event event) {
    uint64_t needed = half_lap_end(index, thread->ring_slots);
    if (!ring_wait(thread->entry, needed)) return;
    if (needed > thread->limit) thread->limit = needed;
    slot_publish(&thread->slots[index & thread->mask], event, kl_ring_tag(index, thread->shift));
    uint64_t unread = index - __atomic_load_n(&thread->ring->tail, __ATOMIC_RELAXED);
    if (unread >= thread->ring_slots / 2 && session.own_log == 0) session_ring_bell();
}

static void event_record_first(struct thread* thread, struct kl_ring_event event) {
    if (thread_attach(thread)) event_record_own(thread, index_claim(thread), event);
}

/* Forgets a ring of an earlier recording. */
static void thread_renew(struct thread* thread) {
    sigset_t before = signals_block();
    thread->slots = NULL;
    thread->limit = 0;
    thread->recording = __atomic_load_n(&session.number, __ATOMIC_RELAXED);
    signals_restore(before);
}

/* No slow path may be left in its middle, and what it calls are points of cancellation. */
struct slow {
    int saved_errno;
    int cancelling;
};
static struct slow slow_begin(void) {
    struct slow slow = {errno, PTHREAD_CANCEL_ENABLE};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &slow.cancelling);
    return slow;
}
static void slow_end(struct slow slow) {
    pthread_setcancelstate(slow.cancelling, NULL);
    errno = slow.saved_errno;
}

void thread_record_slow(uint64_t index, struct kl_ring_event event) {
    struct thread* thread = &recorder_thread;
    struct slow slow = slow_begin();
    if (!session_enter()) { /* the recording has ended while the call was under way */
        slow_end(slow);
        return;
    }
    bool stale = thread_is_stale(thread);
    if (thread->busy || thread->closed || (stale && thread->telling > 1)) {
        event_record_borrowed(thread, event);
    } else if (thread->slots != NULL && !stale) {
        event_record_own(thread, index, event);
    } else {
        if (stale) thread_renew(thread);
        event_record_first(thread, event);
    }
    session_leave();
    slow_end(slow);
}

/* A signal handler may have come in the middle of an event of the old recording, which goes on with
 * the old ring behind it: then the thread stays as it is, and the handler's event borrows. */
void thread_record_anew(struct kl_ring_event event) {
    thread_record_slow(UINT64_MAX, event);
}

bool thread_has_ring(void) {
    struct thread* thread = &recorder_thread;
    if (thread->slots != NULL) return true;
    if (thread->busy || thread->closed || !session_enter()) return false;
    struct slow slow = slow_begin();
    bool has_ring = thread_attach(thread);
    slow_end(slow);
    session_leave();
    return has_ring;
}

bool thread_told_birth(uint64_t index, const void* block) {
    const struct thread* thread = &recorder_thread;
    if (thread->slots == NULL) return false;
    /* The thread took its ring meanwhile, or did more than any allocator would: the last events will
     * do. */
    enum { LOOK_BACK = 64 };
    if (thread->head - index > LOOK_BACK)
        index = thread->head > LOOK_BACK ? thread->head - LOOK_BACK : 0;
    for (; index < thread->head; index++) {
        const struct kl_ring_event* event = &thread->slots[index & thread->mask];
        uint64_t op = event->word & 0xff;
        bool birth = op == KL_RING_MALLOC || op == KL_RING_CALLOC || op == KL_RING_ALIGNED ||
                     op == KL_RING_REALLOC_NULL;
        if (birth && event->address == (uint64_t)block) return true;
    }
    return false;
}

/* ---- process start and fork
 * ----------------------------------------------------------------------------------- */

/* The forking thread is the child's only one; its ring is its parent's. */
static void thread_forget(void) {
    recorder_thread = (struct thread){.starting = recorder_thread.starting};
    atomic_store(&thread_serials, 0);
    session.threaded = 0;
}

/* MADV_WIPEONFORK has done this on any kernel since 4.14; here it is done again for the others. */
static void forked_child(void) {
    thread_forget();
    atomic_store(&session_page.state, SESSION_UNKNOWN);
}

bool thread_session_enter(void) {
    struct thread* thread = &recorder_thread;
    if (thread->starting) return false; /* the loader's own calls while we ask it */
    thread->starting = true;
    struct slow slow = slow_begin();
    uint32_t expected = SESSION_UNKNOWN;
    if (atomic_compare_exchange_strong(&session_page.state, &expected, SESSION_STARTING)) {
        static bool resolved;
        if (!resolved) {
            resolved = true;
            host_prepare();
            thread_key_valid = pthread_key_create(&thread_key, thread_detach) == 0;
        }
        thread_forget();
        session_start();
    }
    while (session_state() == SESSION_STARTING) {
        /* Another thread of a fresh child is at it; that takes microseconds. */
    }
    slow_end(slow);
    thread->starting = false;
    return session_state() == SESSION_ON;
}

/* A program that never allocates is recorded too, and its operators find their next definitions. */
__attribute__((constructor)) static void recorder_load(void) {
    if (session_state() == SESSION_UNKNOWN) thread_session_enter();
    /* Not by the first call, which may be a malloc of pthread_atfork's own, under its lock. */
    pthread_atfork(NULL, NULL, forked_child);
}

#include "thread.h"

#include "caches.h"
#include "host.h"
#include "log.h"
#include "signals.h"
#include "system.h"
#include <string.h>

// A thread that waits is woken when its wait can end. It looks by itself only for the end of the
// reader.
enum { LOOK_MS = 1000, DESTRUCTOR_PASSES = 2 };

_Thread_local struct thread recorder_thread = {.head = INDEX_NONE};

static atomic_state thread_serials;
static atomic_state rings_taken; // the first ring that may be free

// clang-format off
// ---- Waiting for the reader ---------------------------------------------------------------------
// clang-format on
static struct kl_ring* entry_ring(const struct kl_ring_entry* entry) {
    return session_ring((uint32_t)(entry - session.rings));
}

// Writes the ring to the file, which frees its slots. No signal handler may use the same ring
// during the call.
static bool ring_write_out(struct kl_ring_entry* entry, uint64_t needed) {
    struct kl_ring* ring = entry_ring(entry);
    if (needed <= atomic_get(&ring->tail) + entry->slots) return true;
    uint64_t began = ticks();
    signal_set before = signals_block();
    bool written = log_write_ring(entry);
    signals_restore(before);
    ring->stalls++;
    ring->stalled_ticks += ticks() - began;
    if (!written) session_stop(KL_STOP_DISK_FULL);
    // This works even if an interrupted event has an unpublished slot, because handlers use less
    // than half a ring.
    return written && needed <= atomic_get(&ring->tail) + entry->slots;
}

// Waits until indexes below `needed` may be written. False: the recording has ended.
static bool ring_wait(struct kl_ring_entry* entry, uint64_t needed) {
    struct kl_ring* ring = entry_ring(entry);
    uint32_t slots = entry->slots;
    if (session.own_log != 0) return ring_write_out(entry, needed);
    uint64_t heartbeat = 0;
    uint64_t silent_since = 0;
    uint64_t began = 0;
    bool free = true;
    while (needed > atomic_get_acquire(&ring->tail) + slots) {
        if (began == 0) began = ticks();
        // The reader changes the tail, or asks for the end, and then looks whether someone waits.
        // So both are read once more after `waiting` is set.
        uint32_t bell = atomic_get_acquire(&ring->tail_bell);
        atomic_set_ordered(&ring->waiting, 1);
        if (needed <= atomic_get_ordered(&ring->tail) + slots) break;
        enum kl_stop stop = session_must_stop(&heartbeat, &silent_since);
        if (stop != KL_STOP_NONE) {
            session_stop(stop);
            free = false;
            break;
        }
        session_ring_bell();
        session_wait(&ring->tail_bell, bell, LOOK_MS);
    }
    if (began != 0) {
        atomic_set(&ring->waiting, 0);
        ring->stalls++;
        ring->stalled_ticks += ticks() - began;
    }
    return free;
}

// clang-format off
// ---- Rings --------------------------------------------------------------------------------------
// clang-format on

static struct kl_ring_entry* ring_take_from(uint32_t index, uint32_t prepared) {
    for (; index < prepared; index++) {
        struct kl_ring_entry* entry = &session.rings[index];
        uint32_t state = atomic_get(&entry->state);
        if (state == KL_RING_OWNED) continue;
        if (!atomic_try_ordered(&entry->state, &state, KL_RING_OWNED)) continue;
        atomic_set(&rings_taken, index + 1);
        return entry;
    }
    return NULL;
}

// Takes a ring with a low index: these have more slots, and their pages have been touched.
static struct kl_ring_entry* ring_take_free(uint32_t prepared) {
    uint32_t taken = atomic_get(&rings_taken);
    struct kl_ring_entry* entry = ring_take_from(taken, prepared);
    // Another thread may have returned one while `rings_taken` was being raised.
    return entry != NULL || taken == 0 ? entry : ring_take_from(0, prepared);
}

// Waits for a free ring, which the reader prepares or another thread returns. NULL: the recording
// has ended.
static struct kl_ring_entry* ring_wait_free(void) {
    struct kl_spool* spool = session.spool;
    uint64_t heartbeat = 0;
    uint64_t silent_since = 0;
    uint64_t began = ticks();
    struct kl_ring_entry* entry = NULL;
    atomic_add_ordered(&spool->wanted, 1);
    for (;;) {
        uint32_t bell = atomic_get_ordered(&spool->ring_bell);
        uint32_t prepared = atomic_get_acquire(&spool->prepared);
        entry = ring_take_free(prepared);
        if (entry != NULL) break;
        enum kl_stop stop = session_must_stop(&heartbeat, &silent_since);
        if (stop == KL_STOP_NONE && prepared == KL_RING_MAX) stop = KL_STOP_TOO_MANY_THREADS;
        if (stop != KL_STOP_NONE) {
            session_stop(stop);
            break;
        }
        session_ring_bell();
        session_wait(&spool->ring_bell, bell, LOOK_MS);
    }
    atomic_sub_ordered(&spool->wanted, 1);
    if (entry == NULL) return NULL;
    entry_ring(entry)->stalls++;
    entry_ring(entry)->stalled_ticks += ticks() - began;
    return entry;
}

// Takes a free ring. The reader creates new rings, so a thread does not have to open a file. NULL:
// the recording has ended.
static struct kl_ring_entry* ring_take(void) {
    struct kl_spool* spool = session.spool;
    for (;;) {
        uint32_t prepared = atomic_get_acquire(&spool->prepared);
        struct kl_ring_entry* entry = ring_take_free(prepared);
        if (session.own_log == 0) {
            if (entry == NULL) return ring_wait_free();
            // The reader prepares more when the last ones are taken, not for each thread.
            uint32_t left = prepared - (uint32_t)(entry - session.rings);
            if (left <= kl_rings_ahead(prepared)) session_ring_bell();
            return entry;
        }
        if (entry != NULL) return entry;
        if (prepared < KL_RING_MAX && log_prepare_ring(prepared)) continue;
        session_stop(prepared < KL_RING_MAX ? KL_STOP_DISK_FULL : KL_STOP_TOO_MANY_THREADS);
        return NULL;
    }
}

static void ring_return(struct kl_ring_entry* entry, uint64_t head) {
    struct kl_spool* spool = session.spool;
    uint32_t index = (uint32_t)(entry - session.rings);
    entry_ring(entry)->head = head;
    atomic_set_ordered(&entry->state, KL_RING_FREE_STATE);
    if (index < atomic_get(&rings_taken)) atomic_set(&rings_taken, index);
    if (session.own_log != 0 || atomic_get_ordered(&spool->wanted) == 0) return;
    atomic_add_ordered(&spool->ring_bell, 1);
    session_wake(&spool->ring_bell, 1);
}

static struct event thread_begin_event(struct thread* thread) {
    if (thread->serial == 0) thread->serial = atomic_add_ordered(&thread_serials, 1) + 1;
    // The thread that created this thread stored its own events before. From now on both threads
    // read ordered times.
    if (thread->serial > 1) atomic_set(&session.threaded, 1);
    return (struct event){ticks(), system_thread(), thread->serial, KL_RING_THREAD_BEGIN};
}

// Records one event in a ring that is taken only for this event.
static void event_record_borrowed(struct thread* thread, struct event event) {
    struct kl_ring_entry* entry = ring_take();
    if (entry == NULL) return;
    struct kl_ring* ring = entry_ring(entry);
    struct kl_ring_slot* slots = kl_ring_first_slot(ring);
    uint64_t head = ring->head;
    if (ring_wait(entry, head + 2)) {
        unsigned shift = bit_lowest(entry->slots);
        uint64_t mask = entry->slots - 1;
        slot_publish(&slots[head & mask], thread_begin_event(thread), kl_ring_tag(head, shift));
        slot_publish(&slots[(head + 1) & mask], event, kl_ring_tag(head + 1, shift));
        head += 2;
    }
    ring_return(entry, head);
}

// Returns the end of the half lap of `index`. A thread waits until all indexes below this end may
// be written.
static uint64_t half_lap_end(uint64_t index, uint32_t slots) {
    uint64_t half = slots / 2;
    return (index / half + 1) * half;
}

// clang-format off
// ---- The pages of a ring ------------------------------------------------------------------------
// clang-format on

// Indexes below this one are in pages that have been touched.
static uint64_t touched_end(struct kl_ring_entry* entry) {
    enum { SLOTS_IN_PAGE = KL_PAGE_BYTES / sizeof(struct kl_ring_slot) };
    uint64_t pages = entry_ring(entry)->touched_pages;
    if (pages * KL_PAGE_BYTES == kl_ring_bytes(entry->slots)) return UINT64_MAX;
    return (pages == 0 ? 1 : pages) * SLOTS_IN_PAGE -
           sizeof(struct kl_ring) / sizeof(struct kl_ring_slot);
}

// Touches pages until the slot of this index is in one: each time four times as many as before in
// one system call, so that a thread that records little touches little, and the others have few
// page faults.
static void ring_touch(struct kl_ring_entry* entry, uint64_t index) {
    enum { GROWTH = 5 };
    struct kl_ring* ring = entry_ring(entry);
    uint64_t bytes = kl_ring_bytes(entry->slots);
    while (index >= touched_end(entry)) {
        uint64_t begin = (ring->touched_pages == 0 ? 1 : ring->touched_pages) * KL_PAGE_BYTES;
        uint64_t end = begin * GROWTH < bytes ? begin * GROWTH : bytes;
        system_touch((char*)ring + begin, end - begin);
        ring->touched_pages = (uint32_t)(end / KL_PAGE_BYTES);
    }
}

// The end of the indexes that may be written without the slow path, if those before `needed` may.
static uint64_t room_end(struct kl_ring_entry* entry, uint64_t needed) {
    uint64_t end = touched_end(entry);
    return needed < end ? needed : end;
}

// clang-format off
// ---- Samples of the caches ----------------------------------------------------------------------
// clang-format on

// Two events in a row take the slow path: at the first one the chain of lines is read, at the
// second one it is timed. All other events cost nothing.
enum { FIRST_PRIME = 32, PRIME_DISTANCE_LEAST = 512, PRIME_DISTANCE_SPREAD = 1024 };

// Only a reader that runs on the same processors, beside the program, knows what the times mean.
// Two samples of allocations are not successive calls.
static bool caches_are_sampled(void) {
    return session.own_log == 0 && session.clock == KL_CLOCK_TSC && session.sample_bytes == 0;
}

// An index that does not follow the rhythm of the program's calls.
static uint64_t prime_after(uint64_t index, uint64_t time) {
    uint64_t spread = (time * UINT64_C(0x9E3779B97F4A7C15) >> 32) % PRIME_DISTANCE_SPREAD;
    return index + PRIME_DISTANCE_LEAST + spread;
}

// Lowers the limit, so that the event with the index `next_prime` takes the slow path; after a
// prime, the next event.
static void limit_renew(struct thread* thread) {
    uint64_t end = thread->primed != 0 ? thread->head : thread->next_prime;
    thread->limit = end < thread->room ? end : thread->room;
}

static void caches_prime(struct thread* thread, uint64_t index, uint64_t time) {
    thread->next_prime = caches_are_sampled() ? prime_after(index, time) : UINT64_MAX;
    if (thread->next_prime == UINT64_MAX) return;
    caches_read();
    thread->primed = ticks();
}

static void thread_set_head(struct thread* thread, uint64_t head) {
    atomic_order_for_signals();
    atomic_set((atomic_bits*)&thread->head, head);
    atomic_order_for_signals();
}

// A handler must not claim an index of a ring that is not ready, because it would leave a slot that
// is never filled. So `head` is set last, by one instruction.
static void thread_use_ring(struct thread* thread, struct kl_ring_entry* entry) {
    struct kl_ring* ring = entry_ring(entry);
    uint64_t head = ring->head;
    thread_set_head(thread, INDEX_NONE);
    thread->entry = entry;
    thread->ring = ring;
    thread->ring_slots = entry->slots;
    thread->mask = entry->slots - 1;
    thread->shift = bit_lowest(entry->slots);
    thread->slots = kl_ring_first_slot(ring);
    thread->room = room_end(entry, half_lap_end(head, entry->slots));
    thread->next_prime = head + FIRST_PRIME;
    thread->primed = 0;
    slot_publish(&thread->slots[head & thread->mask], thread_begin_event(thread),
                 kl_ring_tag(head, thread->shift));
    limit_renew(thread);
    thread_set_head(thread, head + 1);
}

// Takes a ring for the thread. False: the recording has ended.
static bool thread_attach(struct thread* thread) {
    thread->busy = true; // until it is false, a handler's events borrow rings
    atomic_order_for_signals();
    if (thread->slots != NULL) { // a handler's event has just taken a ring
        thread->busy = false;
        return true;
    }
    struct kl_ring_entry* entry = ring_take();
    bool attached = entry != NULL;
    if (attached) {
        attached = ring_wait(entry, half_lap_end(entry_ring(entry)->head, entry->slots));
        if (attached) thread_use_ring(thread, entry);
    }
    atomic_order_for_signals();
    thread->busy = false;
    // May call calloc, which uses the ring.
    if (attached) system_watch_thread(thread);
    return attached;
}

static bool thread_is_stale(const struct thread* thread) {
    return thread->recording != atomic_get(&session.number);
}

static void thread_return_ring(struct thread* thread) {
    char name[16] = "";
    uint64_t halves[2];
    system_thread_name(name);
    memcpy(halves, name, sizeof halves);
    record(KL_RING_THREAD_END, ticks(), (const void*)halves[0], halves[1], 0);
    thread->closed = true;
    atomic_order_for_signals();
    // From here on, every event takes the slow path and borrows a ring. A handler before this
    // instruction has claimed indexes of the thread's ring, and one after it claims none of them.
    uint64_t head = atomic_swap((atomic_bits*)&thread->head, INDEX_NONE);
    atomic_order_for_signals();
    thread->limit = 0;
    thread->room = 0;
    thread->slots = NULL;
    ring_return(thread->entry, head);
}

// Runs at the thread's end. It acts in the second pass of the destructors, because destructors of
// other libraries may free blocks in the first one.
static void thread_detach(void* value) {
    struct thread* thread = value;
    if (session_state() != SESSION_ON || thread->slots == NULL) return;
    if (++thread->passes < DESTRUCTOR_PASSES) {
        system_watch_thread(thread);
        return;
    }
    if (!session_enter()) return;
    if (!thread_is_stale(thread)) thread_return_ring(thread);
    session_leave();
}

// clang-format off
// ---- The slow path ------------------------------------------------------------------------------
// clang-format on

// Waits until the index may be written. Then there is room up to the end of its half lap, so that
// the reader's tail is read twice per lap.
static bool thread_make_room(struct thread* thread, uint64_t index) {
    uint64_t needed = half_lap_end(index, thread->ring_slots);
    if (!ring_wait(thread->entry, needed)) return false;
    ring_touch(thread->entry, index);
    uint64_t room = room_end(thread->entry, needed);
    if (room > thread->room) thread->room = room;
    uint64_t unread = index - atomic_get(&thread->ring->tail);
    if (unread >= thread->ring_slots / 2 && session.own_log == 0) session_ring_bell();
    return true;
}

static void event_record_own(struct thread* thread, uint64_t index, struct event event) {
    uint64_t primed = thread->primed;
    uint64_t read = primed != 0 ? caches_read() : 0; // before anything else is read
    thread->primed = 0;
    if (index >= thread->room && !thread_make_room(thread, index)) return;
    host_look();
    slot_publish(&thread->slots[index & thread->mask], event, kl_ring_tag(index, thread->shift));
    if (primed != 0) {
        uint64_t pause = event.time > primed ? event.time - primed : 0;
        limit_renew(thread);
        record(KL_RING_CACHES, event.time, (const void*)pause, read, 0);
    } else if (index >= thread->next_prime) {
        caches_prime(thread, index, event.time);
    }
    limit_renew(thread);
}

static void event_record_first(struct thread* thread, struct event event) {
    if (thread_attach(thread)) event_record_own(thread, index_claim(thread), event);
}

// Drops a ring of an earlier recording.
static void thread_renew(struct thread* thread) {
    signal_set before = signals_block();
    thread_set_head(thread, INDEX_NONE);
    thread->slots = NULL;
    thread->limit = 0;
    thread->room = 0;
    thread->recording = atomic_get(&session.number);
    signals_restore(before);
}

void thread_record_slow(uint64_t index, struct event event) {
    struct thread* thread = &recorder_thread;
    // A slow path must not be cancelled, but it calls functions that are cancellation points.
    struct system_state state = system_begin();
    if (!session_enter()) { // the recording has ended during the call
        system_end(state);
        return;
    }
    bool stale = thread_is_stale(thread);
    if (index < INDEX_NONE && thread->slots != NULL && !stale) {
        event_record_own(thread, index, event);
    } else if (thread->busy || thread->closed || (stale && thread->depth > 1)) {
        event_record_borrowed(thread, event);
    } else {
        if (stale) thread_renew(thread);
        event_record_first(thread, event);
    }
    session_leave();
    system_end(state);
}

// A signal handler may have interrupted an event of the old recording. That event will continue
// with the old ring. In this case the thread keeps its ring, and the handler's event borrows
// another.
void thread_record_anew(struct event event) {
    if (recorder_thread.recording == RECORDING_NONE) return;
    thread_record_slow(UINT64_MAX, event);
}

// No allocation reaches the countdown, so none is taken as a sample.
struct thread_own thread_own_begin(void) {
    struct thread* thread = &recorder_thread;
    struct thread_own own = {signals_block(), thread->countdown, thread->recording};
    thread->recording = RECORDING_NONE;
    thread->countdown = UINT64_MAX;
    return own;
}

void thread_own_end(struct thread_own own) {
    struct thread* thread = &recorder_thread;
    thread->countdown = own.countdown;
    thread->recording = own.recording;
    signals_restore(own.signals);
}

bool thread_has_ring(void) {
    struct thread* thread = &recorder_thread;
    if (thread->slots != NULL) return true;
    if (thread->busy || thread->closed || !session_enter()) return false;
    struct system_state state = system_begin();
    bool has_ring = thread_attach(thread);
    system_end(state);
    session_leave();
    return has_ring;
}

bool thread_recorded_allocation(uint64_t index, const void* block) {
    const struct thread* thread = &recorder_thread;
    if (thread->slots == NULL || thread->head >= INDEX_NONE) return false;
    // If the thread has just taken its ring, or has recorded more events than one call of an
    // allocator would cause, only the last events are compared.
    enum { LOOK_BACK = 64 };
    if (thread->head - index > LOOK_BACK)
        index = thread->head > LOOK_BACK ? thread->head - LOOK_BACK : 0;
    for (; index < thread->head; index++) {
        const struct kl_ring_slot* slot = &thread->slots[index & thread->mask];
        uint64_t op = atomic_get(&slot->word) & 0xff;
        bool allocates = op == KL_RING_MALLOC || op == KL_RING_CALLOC || op == KL_RING_ALIGNED ||
                         op == KL_RING_REALLOC_NULL;
        if (allocates && slot->address == (uint64_t)block) return true;
    }
    return false;
}

// clang-format off
// ---- Process start and fork ---------------------------------------------------------------------
// clang-format on

// The forking thread is the only thread of the child. Its ring belongs to the parent.
static void thread_reset(void) {
    recorder_thread = (struct thread){.head = INDEX_NONE, .starting = recorder_thread.starting};
    atomic_set(&thread_serials, 0);
    atomic_set(&rings_taken, 0);
    atomic_set(&session.threaded, 0);
}

// On Linux 4.14 and later, MADV_WIPEONFORK has already reset the state. This function is for older
// kernels.
static void forked_child(void) {
    thread_reset();
    atomic_set_ordered(&session_page.state, SESSION_UNKNOWN);
}

bool thread_session_enter(void) {
    struct thread* thread = &recorder_thread;
    if (thread->starting) return false; // a call of the loader during host_prepare
    thread->starting = true;
    struct system_state state = system_begin();
    uint32_t expected = SESSION_UNKNOWN;
    if (atomic_try_ordered(&session_page.state, &expected, SESSION_STARTING)) {
        static bool resolved;
        if (!resolved) {
            resolved = true;
            host_prepare();
            system_watch_threads(thread_detach);
        }
        thread_reset();
        session_start();
    }
    while (session_state() == SESSION_STARTING) {
        // Another thread of a new child is starting the session, which takes microseconds.
    }
    system_end(state);
    thread->starting = false;
    return session_state() == SESSION_ON;
}

// Starts the session, so that a program that never allocates is also recorded.
__attribute__((constructor)) static void recorder_load(void) {
    if (session_state() == SESSION_UNKNOWN) thread_session_enter();
    // The first call of the recorder cannot do this: it may be a malloc inside pthread_atfork,
    // under the lock of pthread_atfork.
    system_on_fork(forked_child);
}

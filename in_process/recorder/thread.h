// Records an event.
//
// clang-format off
//   malloc                          interpose_malloc.c
//     recording()                   one load and one comparison: ON
//     next.malloc                   the program's allocator
//     record(op, time, ...)         claim an index (one xadd on a thread variable), compare it with
//       |                           the limit, store 32 bytes, the last word with release:
//       |                           about 3 ns besides the clock's 10
//       +- thread_record_slow       every half lap: read the reader's tail, wake the reader, wait
//                                   if the ring is full. Twice in about 1,024 events: a sample of
//                                   the caches. First event of a thread: take a ring. An event
//                                   after the thread's end, or of a signal handler that
//                                   interrupted the above: borrow a ring for this event.
// clang-format on
//
// A signal handler may run between any two instructions and record events. Therefore one
// instruction claims the index, and each event owns its slot. A handler's events take the following
// slots, and the reader waits for the earlier slot.
#ifndef KEEL_RECORDER_THREAD_H
#define KEEL_RECORDER_THREAD_H

#include "base/atomic.h"
#include "base/attributes.h"
#include "base/bits.h"
#include "clock.h"
#include "session.h"
#include "signals.h"
#include <stddef.h>

// The block that is being released. The release may pass through several functions of the allocator
// and of the C++ library, but it must be recorded only once.
struct deleting {
    const void* block;
    uint64_t hint; // 0: recorded already; else the free of this block by name records it with this
                   // hint (journal/ring.h, HINT)
};

// The outermost function of an allocator in the program that the thread is in (interpose_names.c).
// A longjmp leaves it without notice: the next call whose frame is not below `frame` ends it.
enum inside_kind { INSIDE_NONE, INSIDE_ALLOCATION, INSIDE_OTHER };
struct inside {
    enum inside_kind kind;
    const void* frame;
};

struct thread {
    uint64_t head;              // the next index to claim; without a ring, from INDEX_NONE on
    uint64_t limit;             // lower indexes need no slow path; at most `room`
    struct kl_ring_slot* slots; // of the ring; NULL: none
    uint64_t mask;              // number of slots - 1
    uint32_t shift;             // log2 of the number of slots
    uint32_t serial;            // of this thread in the process, from 1; 0: not yet assigned
    uint32_t recording;         // session.number of the recording that the ring belongs to; or
                                // RECORDING_NONE
    uint32_t depth;             // nested calls of record_checked: signal handlers nest
    struct deleting deleting;
    uint64_t room;           // lower indexes may be written; 0 while there is no ring
    uint64_t next_prime;     // the index at which the chain of lines is read (caches.h)
    uint64_t primed;         // when that was, ticks; 0: the chain has been timed since
    const void* caller;      // of the current operator; NULL: malloc's own caller counts
    uint64_t realloc_origin; // of a realloc of NULL whose begin the program reported
    uint64_t countdown;      // bytes that this thread allocates before its next sample (sampling.h)
    uint64_t random;         // state of the generator of countdowns
    uint64_t sampling;       // 1 + session.number of the recording that the countdown is for
    size_t new_size;         // of the current aligned operator new; 0: none
    struct kl_ring* ring;
    struct kl_ring_entry* entry;
    struct inside inside;
    uint32_t ring_slots;
    bool busy;      // a ring is being taken or returned
    bool closed;    // the thread's destructor has run
    bool starting;  // this thread is inside session_start
    bool walking;   // its stack is being walked
    bool in_calloc; // of musl, which calls malloc
    uint8_t passes; // of the destructor
};
extern _Thread_local struct thread recorder_thread;

// A thread without a ring claims indexes from here on. They belong to no ring.
#define INDEX_NONE (UINT64_C(1) << 63)

// Between thread_own_begin and thread_own_end.
#define RECORDING_NONE UINT32_MAX

// A slot's contents before it is published: the fields of struct kl_ring_slot.
struct event {
    uint64_t time;
    uint64_t address;
    uint64_t size;
    uint64_t word; // without the tag
};

// The first recorded call of a process, or of a forked child, calls this. False: do not record.
bool thread_session_enter(void);

void thread_record_slow(uint64_t index, struct event event);

// Records an event of a thread whose ring belongs to an earlier recording.
void thread_record_anew(struct event event);

// The calls of this thread between the two are the recorder's own: they are not recorded. Meanwhile
// no signal handler runs.
struct thread_own {
    signal_set signals;
    uint64_t countdown;
    uint32_t recording;
};
struct thread_own thread_own_begin(void);
void thread_own_end(struct thread_own own);

// Takes a ring for the thread if it has none. False: the thread still has none; it records with
// borrowed rings or not at all.
bool thread_has_ring(void);

// Returns true if one of this thread's events since `index` is the allocation of `block`. A
// function of an allocator may call another one by name, and then the recorder has already recorded
// that call.
bool thread_recorded_allocation(uint64_t index, const void* block);

KEEL_INLINE bool recording(void) {
    uint32_t state = session_state(); // a thread that reads ON also reads the session
    if (KEEL_LIKELY(state == SESSION_ON)) return true;
    return state != SESSION_OFF && thread_session_enter();
}

// What the function with this frame is inside of.
KEEL_INLINE enum inside_kind inside_of(const void* frame) {
    struct inside inside = recorder_thread.inside;
    return frame < inside.frame ? inside.kind : INSIDE_NONE;
}

KEEL_INLINE uint64_t ticks(void) {
    return clock_ticks(session.clock, atomic_get(&session.threaded) != 0);
}

// Does head++ in a way that no signal handler can interrupt. It needs no lock prefix, because only
// this thread uses the variable.
KEEL_INLINE uint64_t index_claim(struct thread* thread) {
#if defined(__x86_64__)
    uint64_t index = 1;
    __asm__ volatile("xaddq %0, %1" : "+r"(index), "+m"(thread->head) : : "cc");
    return index;
#else
    return atomic_add((atomic_bits*)&thread->head, 1);
#endif
}

KEEL_INLINE void slot_publish(struct kl_ring_slot* slot, struct event event, uint64_t tag) {
    slot->time = event.time;
    slot->address = event.address;
    slot->size = event.size;
    atomic_set_release(&slot->word, event.word | tag << 8);
}

// Prefetches a slot that will be written soon, because the reader on another core has last read its
// cache line. With a distance of SLOTS_AHEAD slots, the line arrives in time.
enum { SLOTS_AHEAD = 16 };
KEEL_INLINE void slot_prefetch(struct kl_ring_slot* slot) {
#if defined(__x86_64__)
    // A no-op on processors without the instruction.
    __asm__ volatile("prefetchw %0" : : "m"(*slot));
#else
    __builtin_prefetch(slot, 1);
#endif
}

// The size word of a KL_RING_ALIGNED event. memalign rounds an alignment up to a power of two.
KEEL_INLINE uint64_t size_with_align(uint64_t size, uint64_t align) {
    uint64_t bits = align > 1 ? bit_highest(align - 1) + 1 : 0;
    return (size & ((UINT64_C(1) << KL_ALIGN_SHIFT) - 1)) | bits << KL_ALIGN_SHIFT;
}

// The hint of a free (journal/ring.h, HINT).
KEEL_INLINE uint64_t hint_size(uint64_t size) {
    return KL_HINT_SIZE | (size < KL_HINT_SIZE_MAX ? size : KL_HINT_SIZE_MAX);
}
KEEL_INLINE uint64_t hint_align(uint64_t align) {
    return size_with_align(0, align < sizeof(void*) ? sizeof(void*) : align);
}

KEEL_INLINE void record(enum kl_ring_op op, uint64_t time, const void* address, uint64_t size,
                        uint64_t extra) {
    struct thread* thread = &recorder_thread;
    struct event event = {time, (uint64_t)address, size, extra << 16 | op};
    if (KEEL_UNLIKELY(thread->recording != atomic_get(&session.number))) {
        thread_record_anew(event);
        return;
    }
    uint64_t index = index_claim(thread);
    if (KEEL_UNLIKELY(index >= thread->limit)) {
        thread_record_slow(index, event);
        return;
    }
    slot_publish(&thread->slots[index & thread->mask], event, kl_ring_tag(index, thread->shift));
    slot_prefetch(&thread->slots[(index + SLOTS_AHEAD) & thread->mask]);
}

// Like `record`, for a process that may begin several recordings one after another. A stop and a
// start may happen between a thread's comparison and its store. Then the thread writes to the
// address of its old ring (log_release), and the event belongs to neither recording.
KEEL_INLINE void record_checked(enum kl_ring_op op, uint64_t time, const void* address,
                                uint64_t size, uint64_t extra) {
    struct thread* thread = &recorder_thread;
    thread->depth++;
    atomic_order_for_signals();
    if (KEEL_LIKELY(thread->recording == atomic_get_acquire(&session.number))) {
        record(op, time, address, size, extra);
    } else {
        thread_record_anew((struct event){time, (uint64_t)address, size, extra << 16 | op});
    }
    atomic_order_for_signals();
    thread->depth--;
}

#endif

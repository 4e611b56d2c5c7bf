/* Recording an operation.
 *
 *   malloc                          interpose_malloc.c
 *     recording()                   one load and compare: ON
 *     next.malloc                   the program's allocator
 *     record(op, time, ...)         claim an index (one xadd on a thread variable), two
 * comparisons' worth of checks, |                           32 bytes stored, the last word with
 * release: about 3 ns beside the clock's 10
 *       +- thread_record_slow       at every half lap: look at the reader's tail, ring its bell,
 * wait if full. First event of a thread: take a ring. Events after the thread's end, or from a
 *                                   signal handler in the middle of all that: borrow a ring for one
 * event.
 *
 * A signal handler may run between any two instructions and record. So the index is claimed by one
 * instruction, and each event owns its slot: a handler's events take the following slots, and the
 * reader waits for the earlier one. */
#ifndef KEEL_RECORDER_THREAD_H
#define KEEL_RECORDER_THREAD_H

#include <stddef.h>

#include "clock.h"
#include "session.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* The block whose release is under way, so that it is recorded once however many functions of the
 * allocator and the C++ library it passes through. */
struct deleting {
    const void* block;
    uint64_t told; /* 0: it is recorded already; else the free of this block by name will record it,
                      with this (journal/ring.h, TOLD) */
};

struct thread {
    uint64_t head;               /* the next index to claim */
    uint64_t limit;              /* indexes below may be written; 0 while there is no ring */
    struct kl_ring_event* slots; /* of the ring; NULL: none */
    uint64_t mask;               /* slots - 1 */
    uint32_t shift;              /* log2(slots) */
    uint32_t serial;             /* of this thread in the process, from 1; 0: not yet given */
    uint32_t recording;          /* session.number of the recording that the ring is of */
    uint32_t telling;            /* how often this thread is inside `tell`: handlers nest */
    struct deleting deleting;
    const void* caller;      /* of the operator under way; NULL: malloc's own caller counts */
    uint64_t realloc_origin; /* of a realloc of NULL that the program told the beginning of */
    size_t new_size;         /* of the aligned operator new under way; 0: none */
    struct kl_ring* ring;
    struct kl_ring_entry* entry;
    uint32_t ring_slots;
    bool busy;      /* a ring is being taken or given back */
    bool closed;    /* the thread's destructor has run */
    bool starting;  /* this thread is inside session_start */
    bool walking;   /* its stack is being walked */
    uint8_t passes; /* of the destructor */
};
extern _Thread_local struct thread recorder_thread;

/* First call of the process or of a forked child; false: do not record. */
bool thread_session_enter(void);

void thread_record_slow(uint64_t index, struct kl_ring_event event);

/* Records an event of a thread whose ring is of an earlier recording. */
void thread_record_anew(struct kl_ring_event event);

/* Gives the thread a ring of its own if it has none. False: it has none, and records through
 * borrowed ones or not at all. */
bool thread_has_ring(void);

/* Whether one of this thread's events since `index` is the birth of `block`: an allocator's function
 * may call another of its own by name, and so come by us again. */
bool thread_told_birth(uint64_t index, const void* block);

/* Names the stack of the call that returns to `caller`, and tells it to the ring when it has not
 * been told lately; stack.c. Preserves errno. */
uint64_t stack_origin(const void* caller);

static inline bool recording(void) {
    uint32_t state = session_state(); /* who sees ON sees the session */
    if (LIKELY(state == SESSION_ON)) return true;
    return state != SESSION_OFF && thread_session_enter();
}

static inline uint64_t ticks(void) {
    bool threaded = __atomic_load_n(&session.threaded, __ATOMIC_RELAXED) != 0;
    return clock_ticks(session.clock, threaded);
}

/* Of a free. The processor may read this clock before loads that come earlier are done, so the time
 * may be a little early: even before the block's birth on another thread. The reader puts such a free
 * in its place (lab/record/src/assemble.rs), which it can because births are exact. */
static inline uint64_t ticks_of_free(void) {
    return clock_ticks(session.clock, false);
}

/* head++ that no signal handler can come between. No lock prefix: the variable is this thread's
 * own. */
static inline uint64_t index_claim(struct thread* thread) {
#if defined(__x86_64__)
    uint64_t index = 1;
    __asm__ volatile("xaddq %0, %1" : "+r"(index), "+m"(thread->head) : : "cc");
    return index;
#else
    return __atomic_fetch_add(&thread->head, 1, __ATOMIC_RELAXED);
#endif
}

static inline void slot_publish(struct kl_ring_event* slot, struct kl_ring_event event,
                                uint64_t tag) {
    slot->time = event.time;
    slot->address = event.address;
    slot->size = event.size;
    __atomic_store_n(&slot->word, event.word | tag << 8, __ATOMIC_RELEASE);
}

/* A slot that will be written soon: its line was last read by the reader, on another core, and has to
 * be taken from there. So far ahead that it has come by then. */
enum { SLOTS_AHEAD = 16 };
static inline void slot_expect(struct kl_ring_event* slot) {
#if defined(__x86_64__)
    /* Where the processor does not know it, it does nothing. */
    __asm__ volatile("prefetchw %0" : : "m"(*slot));
#else
    __builtin_prefetch(slot, 1);
#endif
}

/* The origin (journal/ring.h) of a call that returns to `caller`. */
static inline uint64_t origin(const void* caller) {
    const void* outer = recorder_thread.caller;
    if (UNLIKELY(outer != NULL)) caller = outer;
    if (UNLIKELY(session.stacks != 0)) return stack_origin(caller);
    return (uint64_t)caller & (KL_ORIGIN_STACK - 1);
}

/* A KL_RING_ALIGNED's size. memalign rounds an alignment that is no power of two up to one. */
static inline uint64_t size_with_align(uint64_t size, uint64_t align) {
    unsigned bits = align > 1 ? 64u - (unsigned)__builtin_clzll(align - 1) : 0;
    return (size & ((UINT64_C(1) << KL_ALIGN_SHIFT) - 1)) | (uint64_t)bits << KL_ALIGN_SHIFT;
}

/* What a free told of its block (journal/ring.h, TOLD). */
static inline uint64_t told_size(uint64_t size) {
    return KL_TOLD_SIZE | (size < KL_TOLD_SIZE_MAX ? size : KL_TOLD_SIZE_MAX);
}
static inline uint64_t told_align(uint64_t align) {
    return size_with_align(0, align < sizeof(void*) ? sizeof(void*) : align);
}

/* Of the function that this stands in, which must not be inlined. */
#define ORIGIN() origin(__builtin_return_address(0))

static inline void record(enum kl_ring_op op, uint64_t time, const void* address, uint64_t size,
                          uint64_t extra) {
    struct thread* thread = &recorder_thread;
    struct kl_ring_event event = {time, (uint64_t)address, size, extra << 16 | op};
    uint64_t index = index_claim(thread);
    if (UNLIKELY(index >= thread->limit)) {
        thread_record_slow(index, event);
        return;
    }
    slot_publish(&thread->slots[index & thread->mask], event, kl_ring_tag(index, thread->shift));
    slot_expect(&thread->slots[(index + SLOTS_AHEAD) & thread->mask]);
}

/* As `record`, in a process that may begin one recording after another. A thread that a stop and a
 * start overtake between the comparison and the store writes to where its ring was (log_release), and
 * the event belongs to neither. */
static inline void tell(enum kl_ring_op op, uint64_t time, const void* address, uint64_t size,
                        uint64_t extra) {
    struct thread* thread = &recorder_thread;
    thread->telling++;
    atomic_signal_fence(memory_order_seq_cst);
    if (LIKELY(thread->recording == __atomic_load_n(&session.number, __ATOMIC_ACQUIRE))) {
        record(op, time, address, size, extra);
    } else {
        thread_record_anew((struct kl_ring_event){time, (uint64_t)address, size, extra << 16 | op});
    }
    atomic_signal_fence(memory_order_seq_cst);
    thread->telling--;
}

#endif

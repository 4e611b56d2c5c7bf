// Records the cache lines that each thread writes. The allocator is compiled with
// -fsanitize=thread, and this file replaces that sanitizer's runtime: the compiler calls it before
// each access to memory, plain or atomic.
#include "record.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINES (1u << 18) // lines that all threads together may write

struct line {
    _Atomic(uintptr_t) address; // of the line, divided by its size; 0: unused entry
    _Atomic(uint32_t) writer;   // number of the first thread + 1
    _Atomic(uint32_t) shared;   // 1: a second thread has written it
    _Atomic(uint32_t) last;     // number of the thread that wrote last + 1
    _Atomic(uint64_t) writes;   // all
    _Atomic(uint64_t) passes;   // those by another thread than the one before
};

static struct line* lines;
static _Atomic(bool) recording;
static bool (*wanted)(const void* written);
static __thread uint32_t self; // 0: this thread is not recorded

void record_prepare(void) {
    lines = mmap(NULL, LINES * sizeof *lines, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lines == MAP_FAILED) abort();
}

void record_thread(unsigned number) {
    self = number + 1;
}

void record_start(bool (*counts)(const void* written)) {
    wanted = counts;
    memset(lines, 0, LINES * sizeof *lines);
    atomic_store(&recording, true);
}
void record_stop(void) {
    atomic_store(&recording, false);
}

static struct line* line_of(uintptr_t address) {
    size_t at = address * 0x9E3779B97F4A7C15u >> 46 & (LINES - 1);
    for (unsigned probe = 0; probe < LINES; probe++, at = (at + 1) & (LINES - 1)) {
        uintptr_t seen = atomic_load_explicit(&lines[at].address, memory_order_relaxed);
        if (seen == address) return &lines[at];
        if (seen == 0 && atomic_compare_exchange_strong(&lines[at].address, &seen, address))
            return &lines[at];
        if (seen == address) return &lines[at];
    }
    fputs("contention: too many lines\n", stderr);
    abort();
}

static void note(const void* p) {
    if (self == 0 || !atomic_load_explicit(&recording, memory_order_relaxed)) return;
    if (!wanted(p)) return;
    struct line* line = line_of((uintptr_t)p / RECORD_LINE);
    uint32_t first = 0;
    if (!atomic_compare_exchange_strong(&line->writer, &first, self) && first != self)
        atomic_store_explicit(&line->shared, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&line->writes, 1, memory_order_relaxed);
    uint32_t before = atomic_exchange_explicit(&line->last, self, memory_order_relaxed);
    if (before != 0 && before != self)
        atomic_fetch_add_explicit(&line->passes, 1, memory_order_relaxed);
}

uint64_t record_passes(void) {
    uint64_t total = 0;
    for (size_t i = 0; i < LINES; i++) total += atomic_load(&lines[i].passes);
    return total;
}

uint64_t record_shared_writes(record_visit visit) {
    uint64_t total = 0;
    for (size_t i = 0; i < LINES; i++) {
        const void* address = (const void*)(atomic_load(&lines[i].address) * RECORD_LINE);
        if (atomic_load(&lines[i].shared) == 0) continue;
        uint64_t writes = atomic_load(&lines[i].writes);
        total += writes;
        if (visit != NULL) visit(address, writes);
    }
    return total;
}

// --- What the compiler calls ---------------------------------------------------------------------

#define PLAIN(bytes)                                                                               \
    void __tsan_read##bytes(void* p) {                                                             \
        (void)p;                                                                                   \
    }                                                                                              \
    void __tsan_write##bytes(void* p) {                                                            \
        note(p);                                                                                   \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void* p) {                                                   \
        (void)p;                                                                                   \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void* p) {                                                  \
        note(p);                                                                                   \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_init(void) {}
void __tsan_func_entry(void* p) {
    (void)p;
}
void __tsan_func_exit(void) {}
void __tsan_read_range(void* p, unsigned long bytes) {
    (void)p;
    (void)bytes;
}
void __tsan_write_range(void* p, unsigned long bytes) {
    for (unsigned long at = 0; at < bytes; at += RECORD_LINE) note((char*)p + at);
}

// Memory orders are at most sequentially consistent, so that order is right for all.
#define ATOMIC(bits, type)                                                                         \
    type __tsan_atomic##bits##_load(type* p, int order) {                                          \
        (void)order;                                                                               \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    void __tsan_atomic##bits##_store(type* p, type value, int order) {                             \
        (void)order;                                                                               \
        note(p);                                                                                   \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    type __tsan_atomic##bits##_exchange(type* p, type value, int order) {                          \
        (void)order;                                                                               \
        note(p);                                                                                   \
        return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                    \
    }                                                                                              \
    type __tsan_atomic##bits##_fetch_add(type* p, type value, int order) {                         \
        (void)order;                                                                               \
        note(p);                                                                                   \
        return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);                                     \
    }                                                                                              \
    type __tsan_atomic##bits##_fetch_sub(type* p, type value, int order) {                         \
        (void)order;                                                                               \
        note(p);                                                                                   \
        return __atomic_fetch_sub(p, value, __ATOMIC_SEQ_CST);                                     \
    }                                                                                              \
    type __tsan_atomic##bits##_fetch_or(type* p, type value, int order) {                          \
        (void)order;                                                                               \
        note(p);                                                                                   \
        return __atomic_fetch_or(p, value, __ATOMIC_SEQ_CST);                                      \
    }                                                                                              \
    type __tsan_atomic##bits##_fetch_and(type* p, type value, int order) {                         \
        (void)order;                                                                               \
        note(p);                                                                                   \
        return __atomic_fetch_and(p, value, __ATOMIC_SEQ_CST);                                     \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(type* p, type* expected, type desired,       \
                                                      int order, int failure) {                    \
        (void)order;                                                                               \
        (void)failure;                                                                             \
        note(p);                                                                                   \
        return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST,          \
                                           __ATOMIC_SEQ_CST);                                      \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(type* p, type* expected, type desired,         \
                                                    int order, int failure) {                      \
        return __tsan_atomic##bits##_compare_exchange_strong(p, expected, desired, order,          \
                                                             failure);                             \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order) {
    (void)order;
    atomic_thread_fence(memory_order_seq_cst);
}
void __tsan_atomic_signal_fence(int order) {
    (void)order;
    atomic_signal_fence(memory_order_seq_cst);
}

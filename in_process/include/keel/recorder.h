/* keel/recorder.h: records the operations of a program's own allocator.
 *
 * `keel record` sees malloc and its family. An engine that divides large blocks itself, a program
 * that is linked statically, or a program with its own malloc calls these functions instead and
 * gets the same journal. Link libkeel_record (-lkeel_record; C and C++), and then either
 *
 *   - record from inside:  kl_record_start("game.spool") ... kl_record_stop();
 *                          keel import game.spool -o game.journal.parquet
 *   - or from outside:     keel record --embedded -- ./game      (no start or stop in the program)
 *
 * Nothing else in the program changes. These functions do not record malloc itself.
 *
 * ORDER. Record an allocation after your allocator has returned the block and before any other
 * thread can know its address. Record a free before another thread can be given the same address.
 * That is: call kl_record_alloc after the allocation, and kl_record_free before the release.
 *
 * COST. While nothing is recorded, each call is a load, a compare and a branch that is not taken.
 * While recording, an event is 32 bytes stored in a ring of the calling thread: about 10 to 25 ns,
 * most of it for the clock. No locks and no allocations. A recording from inside also writes the
 * rings out: once in some thousand events a thread stops for that, for 0.05 to 0.5 ms on a file
 * system that caches; the journal counts these as stalls.
 *
 * THREADS. All functions may be called from any thread at any time. All except kl_record_start and
 * kl_record_stop may also be called from signal handlers; a handler must not leave one by longjmp.
 * An event that another thread is recording while a recording starts or stops may be missing. No
 * function is a cancellation point; errno is preserved. A child made by fork is not recorded; it
 * may start its own recording.
 *
 * SEVERAL RECORDINGS. After kl_record_stop another recording may start, into another file or the
 * same one. Recordings are independent: a free of a block that is older than the recording is
 * recorded as a free of a foreign block, and a thread appears in a recording once it records an
 * event, even if it existed before. Name the threads again in each recording. A recording that has
 * ended keeps address space, but no memory, as large as its rings were: 1 MiB for each of the first
 * 4 threads that recorded at the same time, 260 KiB for each of the next 60, 68 KiB for each
 * further one.
 *
 * CRASHES. Events that were recorded before the program died, for whatever reason, are in
 * game.spool and game.spool.rings; `keel import game.spool` reads both. kl_record_stop and a normal
 * exit remove the second file. */
#ifndef KEEL_RECORDER_H
#define KEEL_RECORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On a page of its own, so that it can be off in a forked child. Read only: do not write to it. */
struct kl_record_gate {
    unsigned on; /* 1: events are recorded */
    unsigned char reserved[4092];
};
extern struct kl_record_gate kl_record_gate;

/* Starts a recording into the file `path`, which is replaced, and the file `path`.rings beside it.
 * Takes about 2 ms.
 *
 * Returns 0 or an error number:
 *
 *   - EINVAL: `path` is NULL or empty.
 *   - EALREADY: this process is being recorded by an earlier call, or is or was recorded by
 *     `keel record --embedded`.
 *   - EBUSY: another thread is in kl_record_start or kl_record_stop.
 *   - ENAMETOOLONG: `path` is too long.
 *   - the errno of creating or writing the files (ENOSPC, EACCES, ENOENT and others). Neither file
 *     then exists, and nothing is recorded. */
int kl_record_start(const char* path);

/* Ends the recording and completes the file. A normal exit does the same. Costs one write of the
 * content of the rings, at most some MB.
 *
 * Returns 0 or an error number:
 *
 *   - EINVAL: no recording from inside is running.
 *   - EBUSY: another thread is in kl_record_start or kl_record_stop.
 *   - the errno of writing the file, usually ENOSPC. The file then lacks the last events. The same
 *     holds if a write failed earlier: the recording then ended by itself, kl_record_gate is off,
 *     and the program continued.
 *
 * After any of these results another recording may start. */
int kl_record_stop(void);

/* The functions below call these when the gate is open. `caller` is an address in the code to which
 * the operation is attributed, or NULL if it is unknown. */
void kl_record_alloc_from(const void* block, size_t size, const void* caller);
void kl_record_calloc_from(const void* block, size_t size, const void* caller);
void kl_record_aligned_from(const void* block, size_t align, size_t size, const void* caller);
void kl_record_free_from(const void* block, const void* caller);
void kl_record_free_sized_from(const void* block, size_t size, const void* caller);
void kl_record_free_aligned_sized_from(const void* block, size_t align, size_t size,
                                       const void* caller);
void kl_record_realloc_begin_from(const void* old_block, size_t size, const void* caller);
void kl_record_realloc_end_from(const void* old_block, const void* new_block, size_t size);
void kl_record_frame_now(void);
void kl_record_mark_now(const char* text);
void kl_record_thread_name_now(const char* name);

#define KL_RECORD_INLINE static inline __attribute__((always_inline, unused))
#define KL_RECORD_IF_ON(call)                                                                      \
    do {                                                                                           \
        if (__builtin_expect(__atomic_load_n(&kl_record_gate.on, __ATOMIC_RELAXED) != 0, 0)) call; \
    } while (0)

/* The functions below are inlined into your allocation function, so operations are attributed to
 * its caller. */
#define KL_RECORD_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* Records the allocation of a block of `size` bytes. NULL, a failed call, is not recorded. */
KL_RECORD_INLINE void kl_record_alloc(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_alloc_from(block, size, KL_RECORD_CALLER));
}

/* The same for a block whose bytes are all zero. */
KL_RECORD_INLINE void kl_record_calloc(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_calloc_from(block, size, KL_RECORD_CALLER));
}

/* The same for a block whose address is a multiple of `align`, a power of two (other values are
 * rounded up to one). */
KL_RECORD_INLINE void kl_record_aligned(const void* block, size_t align, size_t size) {
    KL_RECORD_IF_ON(kl_record_aligned_from(block, align, size, KL_RECORD_CALLER));
}

/* Records that the block is about to be freed. NULL is not recorded. */
KL_RECORD_INLINE void kl_record_free(const void* block) {
    KL_RECORD_IF_ON(kl_record_free_from(block, KL_RECORD_CALLER));
}

/* The same for an allocator whose release function takes the requested size, like C23's free_sized;
 * the replay then uses such a function too. `size` is the size that your allocator was given. If it
 * differs from the requested size, that is recorded and `keel info` reports it. Not for blocks that
 * were allocated with an alignment. */
KL_RECORD_INLINE void kl_record_free_sized(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_free_sized_from(block, size, KL_RECORD_CALLER));
}

/* The same for a block that was allocated with this alignment, like free_aligned_sized. */
KL_RECORD_INLINE void kl_record_free_aligned_sized(const void* block, size_t align, size_t size) {
    KL_RECORD_IF_ON(kl_record_free_aligned_sized_from(block, align, size, KL_RECORD_CALLER));
}

/* Record a reallocation to `size` bytes: call `begin` before it and `end` after it on the same
 * thread, both with the old block. If the old block is NULL, it is an allocation. If the new block
 * is NULL, the call failed and the old block stays live; with size 0 the old block was freed. */
KL_RECORD_INLINE void kl_record_realloc_begin(const void* old_block, size_t size) {
    KL_RECORD_IF_ON(kl_record_realloc_begin_from(old_block, size, KL_RECORD_CALLER));
}
KL_RECORD_INLINE void kl_record_realloc_end(const void* old_block, const void* new_block,
                                            size_t size) {
    KL_RECORD_IF_ON(kl_record_realloc_end_from(old_block, new_block, size));
}

/* Both in one call, after the reallocation. Only for allocators in which no other thread can have
 * been given the old address yet, because they hold a lock or resize in place. */
KL_RECORD_INLINE void kl_record_realloc(const void* old_block, const void* new_block, size_t size) {
    kl_record_realloc_begin(old_block, size);
    kl_record_realloc_end(old_block, new_block, size);
}

/* Marks the end of a frame. Call it once per frame, from one thread. */
KL_RECORD_INLINE void kl_record_frame(void) {
    KL_RECORD_IF_ON(kl_record_frame_now());
}

/* Records a marker, such as "level 2", in UTF-8. Only the first 240 bytes are kept. */
KL_RECORD_INLINE void kl_record_mark(const char* text) {
    KL_RECORD_IF_ON(kl_record_mark_now(text));
}

/* Names the calling thread in the journal. Only the first 15 bytes are kept. Without a call the
 * journal has the system's name of the thread. */
KL_RECORD_INLINE void kl_record_thread_name(const char* name) {
    KL_RECORD_IF_ON(kl_record_thread_name_now(name));
}

#ifdef __cplusplus
}
#endif
#endif

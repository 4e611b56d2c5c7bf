/* keel/recorder.h: a program tells the allocations of its own allocator.
 *
 * `keel record` sees malloc and its kin. An engine that carves its blocks out of large ones, a program
 * that is linked statically, or one that brings a malloc of its own calls these functions instead,
 * and gets the same journal. Link libkeel_record (-lkeel_record; C and C++), then either
 *
 *   - record from inside:  kl_record_start("game.spool") ... kl_record_stop();
 *                          keel import game.spool -o game.journal.parquet
 *   - or from outside:     keel record --embedded -- ./game      (no start or stop in the program)
 *
 * Nothing else of the program changes. malloc itself is not recorded here.
 *
 * ORDER. Tell a birth after the block is yours and before any other thread can know it; tell a death
 * before another thread can be given the same address. That is: kl_record_alloc behind the
 * allocation, kl_record_free in front of the release.
 *
 * COST. While nothing is recorded each call is one load, one compare and one branch that is never
 * taken. While recording, an event is 32 bytes stored in a ring of the calling thread: some 10 to
 * 25 ns, most of it the clock. No locks and no allocations. A recording from inside also writes the
 * ring out now and then: a thread stops for it once in some thousand events, for 0.05 to 0.5 ms on a
 * file system that caches; the journal counts these as stalls.
 *
 * THREADS. All functions may be called from any thread at any time, also from signal handlers, but
 * for kl_record_start and kl_record_stop, which are not for signal handlers. An event that another
 * thread is in the middle of telling while a recording starts or stops may be missing. No function is
 * a point of cancellation; errno stays as it was. A handler must not leave one by longjmp. A child
 * made by fork is not recorded; it may start a recording of its own.
 *
 * AGAIN. After kl_record_stop another recording may start, into another file or the same. Each stands
 * for itself: blocks that are older than it are freed in it as foreign ones, and threads are in it
 * when they tell something, those that live across as well as new ones. Names of threads are told in
 * each anew. Each recording that has ended keeps address space, and no memory, as large as its rings
 * were: 1 MiB for each of the first 4 threads that told something at the same time, 260 KiB for each
 * of the next 60, 68 KiB for others.
 *
 * CRASH. What was told before the program died, of whatever cause, is in game.spool and
 * game.spool.rings; `keel import game.spool` reads both. The second file disappears with
 * kl_record_stop or a normal exit. */
#ifndef KEEL_RECORDER_H
#define KEEL_RECORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On its own page, so that a forked child finds it off. Look, do not write. */
struct kl_record_gate {
    unsigned on; /* 1: events are recorded */
    unsigned char reserved[4092];
};
extern struct kl_record_gate kl_record_gate;

/* Begins a recording into the file `path`, which is replaced, and the file `path`.rings beside it.
 * Takes about 2 ms.
 *
 * Returns 0, or: EINVAL path is NULL or empty; EALREADY this process is recorded by an earlier call, or
 * is or was by `keel record --embedded`; EBUSY another thread is in kl_record_start or kl_record_stop;
 * ENAMETOOLONG; an errno of creating or writing the files (ENOSPC, EACCES, ENOENT ...). After an error
 * of the files neither is there and nothing is recorded. */
int kl_record_start(const char* path);

/* Ends the recording and completes the file. A normal exit does the same. Costs one write of what the
 * rings hold, at most some MB.
 *
 * Returns 0; EINVAL nothing is recorded from inside; EBUSY another thread is in kl_record_start or
 * kl_record_stop; or the errno of writing the file (usually ENOSPC), which then lacks the last events,
 * and so it does when a write failed earlier: the recording has ended then by itself, kl_record_gate
 * is off, and the program goes on. Whatever it returns, another recording may start. */
int kl_record_stop(void);

/* What the functions below call when the gate is open. `caller` is an address in the code that the
 * operation shall be charged to; NULL if unknown. */
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

/* Inlined into your allocation function, the operations are charged to whoever called that. */
#define KL_RECORD_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* A block of `size` bytes was allocated. NULL is a failed call and not recorded. */
KL_RECORD_INLINE void kl_record_alloc(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_alloc_from(block, size, KL_RECORD_CALLER));
}

/* The same, and its bytes are zero. */
KL_RECORD_INLINE void kl_record_calloc(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_calloc_from(block, size, KL_RECORD_CALLER));
}

/* The same, at an address that is a multiple of `align`: a power of two, else it is rounded up. */
KL_RECORD_INLINE void kl_record_aligned(const void* block, size_t align, size_t size) {
    KL_RECORD_IF_ON(kl_record_aligned_from(block, align, size, KL_RECORD_CALLER));
}

/* The block is about to be released. NULL is not recorded. */
KL_RECORD_INLINE void kl_record_free(const void* block) {
    KL_RECORD_IF_ON(kl_record_free_from(block, KL_RECORD_CALLER));
}

/* The same of an allocator whose release is told the size that was asked for, as C23's free_sized is. A
 * replay then uses such a release too. `size` is what your allocator was told; should it not be what was
 * asked for, that is recorded and `keel info` tells it. Not for blocks that were asked for with an
 * alignment. */
KL_RECORD_INLINE void kl_record_free_sized(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_free_sized_from(block, size, KL_RECORD_CALLER));
}

/* The same of a block that was asked for with this alignment, as free_aligned_sized. */
KL_RECORD_INLINE void kl_record_free_aligned_sized(const void* block, size_t align, size_t size) {
    KL_RECORD_IF_ON(kl_record_free_aligned_sized_from(block, align, size, KL_RECORD_CALLER));
}

/* Around a reallocation to `size` bytes: `begin` before it, `end` after it on the same thread, with
 * the old block in both. An old block of NULL makes it an allocation. A new block of NULL says that
 * the call failed and the old block lives on, or with size 0, that it was freed. */
KL_RECORD_INLINE void kl_record_realloc_begin(const void* old_block, size_t size) {
    KL_RECORD_IF_ON(kl_record_realloc_begin_from(old_block, size, KL_RECORD_CALLER));
}
KL_RECORD_INLINE void kl_record_realloc_end(const void* old_block, const void* new_block,
                                            size_t size) {
    KL_RECORD_IF_ON(kl_record_realloc_end_from(old_block, new_block, size));
}

/* Both at once: for allocators that hold a lock meanwhile or grow blocks in place, so that no other
 * thread can have been given the old address yet. */
KL_RECORD_INLINE void kl_record_realloc(const void* old_block, const void* new_block, size_t size) {
    kl_record_realloc_begin(old_block, size);
    kl_record_realloc_end(old_block, new_block, size);
}

/* A frame ends here: call it once a frame, from one thread. */
KL_RECORD_INLINE void kl_record_frame(void) {
    KL_RECORD_IF_ON(kl_record_frame_now());
}

/* A named moment, such as "level 2". UTF-8; the first 240 bytes count. */
KL_RECORD_INLINE void kl_record_mark(const char* text) {
    KL_RECORD_IF_ON(kl_record_mark_now(text));
}

/* Names the calling thread in the journal; the first 15 bytes count. Without it the journal has the
 * name that the system knows. */
KL_RECORD_INLINE void kl_record_thread_name(const char* name) {
    KL_RECORD_IF_ON(kl_record_thread_name_now(name));
}

#ifdef __cplusplus
}
#endif
#endif

/* keel/recorder.h: records the operations of a program's own allocator.
 *
 * `keel record` sees only calls of malloc and its family. A program that allocates in another way
 * calls these functions, and gets the same journal. Examples are an engine that divides large
 * blocks itself, a program that is linked statically, and a program with its own malloc. Link
 * libkeel_record (-lkeel_record; C and C++), and then either
 *
 *   - record from inside:  kl_record_start("game.spool") ... kl_record_stop();
 *                          keel import game.spool -o game.journal.parquet
 *   - or from outside:     keel record --embedded -- ./game      (no start or stop in the program)
 *
 * The program needs no other change. These functions do not record malloc itself.
 *
 * ORDER. Record an allocation after your allocator has returned the block and before any other
 * thread can know its address. Record a free before the allocator can return the same address to
 * another thread. This means: call kl_record_alloc after the allocation, and kl_record_free before
 * the release.
 *
 * COST. While nothing is recorded, each call costs a load, a compare and a branch that is not
 * taken. During a recording, each call stores an event of 32 bytes in the ring (ring buffer) of the
 * calling thread. This takes about 10 to 25 ns, most of it to read the clock. The call takes no
 * lock and allocates nothing. In a recording from inside, the threads also write their rings to the
 * file. A thread does this once in a few thousand events. It takes 0.05 to 0.5 ms if the file
 * system caches writes. The journal counts these interruptions as stalls.
 *
 * THREADS. Any thread may call any of these functions at any time. Signal handlers may call all of
 * them except kl_record_start and kl_record_stop, but must not leave one of them by longjmp. If
 * another thread records an event while a recording starts or stops, the event may be missing. No
 * function is a cancellation point. errno is preserved. A forked child is not recorded, but may
 * start its own recording.
 *
 * SEVERAL RECORDINGS. After kl_record_stop the program may start another recording, into another
 * file or the same one. Recordings are independent. If a block is older than the recording, its
 * free is recorded as a free of a foreign block. A thread appears in a recording when it records
 * its first event there. Name the threads again in each recording. After a recording has ended, the
 * address space of its rings stays reserved, but their memory is returned to the system (Windows
 * keeps it committed). The size
 * of a ring depends on how many threads record at the same time: 1 MiB for each of the first 4
 * threads, 260 KiB for each of the next 60, 68 KiB for each of the next 192, and 20 KiB for each
 * further thread.
 *
 * CRASHES. If the program crashes or is killed, the events that it recorded before are in
 * game.spool and game.spool.rings. `keel import game.spool` reads both files. kl_record_stop and a
 * normal exit remove the second file.
 *
 * WINDOWS. Programs of GCC and clang for mingw-w64 record from inside. Link libkeel_record.a and
 * -lntdll, or keel_record.dll. `path` is in UTF-8. keel imports the files on every system, also
 * after TerminateProcess. Where a file system has no sparse files, game.spool.rings takes 187 MiB.
 * A normal exit with keel_record.dll keeps the second file if Windows has ended a thread while it
 * wrote to the first one. GetLastError is preserved. KEEL_ZONE_BEGIN and KEEL_ZONE_END do
 * nothing. */
#ifndef KEEL_RECORDER_H
#define KEEL_RECORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The gate fills a whole system page, which the kernel clears in a forked child: there the gate is
 * off. Do not write to it. */
struct kl_record_gate {
    unsigned on; /* 1: events are recorded */
    unsigned char reserved[4092];
};
extern struct kl_record_gate kl_record_gate;

/* Starts a recording into the file `path` and the file `path`.rings beside it. An existing file
 * `path` is replaced. The call takes about 2 ms.
 *
 * Returns 0 or an error number:
 *
 *   - EINVAL: `path` is NULL or empty.
 *   - EALREADY: an earlier call already records this process, or `keel record --embedded` records
 *     it or has recorded it.
 *   - EBUSY: another thread is in kl_record_start or kl_record_stop.
 *   - ENAMETOOLONG: `path` is too long.
 *   - the errno of creating or writing the files (ENOSPC, EACCES, ENOENT and others). In this case
 *     neither file exists, and nothing is recorded. */
int kl_record_start(const char* path);

/* Ends the recording and completes the file. A normal exit does the same. The call writes the
 * content of the rings, at most some MB.
 *
 * Returns 0 or an error number:
 *
 *   - EINVAL: no recording from inside is running.
 *   - EBUSY: another thread is in kl_record_start or kl_record_stop.
 *   - the errno of writing the file, usually ENOSPC. In this case the last events are missing from
 *     the file. The function also returns this error if a write failed earlier: that failure ended
 *     the recording and set kl_record_gate to off, and the program continued.
 *
 * After each of these results the program may start another recording. */
int kl_record_stop(void);

/* The inline functions below call these functions while the gate is on. `caller` is an address in
 * the code to which the operation is attributed, or NULL if it is unknown. */
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

/* The functions below are inlined into your allocation function. Therefore operations are
 * attributed to the caller of your function. */
#define KL_RECORD_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* Records the allocation of a block of `size` bytes. If `block` is NULL because the call failed,
 * nothing is recorded. */
KL_RECORD_INLINE void kl_record_alloc(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_alloc_from(block, size, KL_RECORD_CALLER));
}

/* The same for a block whose bytes are all zero. */
KL_RECORD_INLINE void kl_record_calloc(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_calloc_from(block, size, KL_RECORD_CALLER));
}

/* The same for a block whose address is a multiple of `align`. If `align` is not a power of two, it
 * is rounded up to one. */
KL_RECORD_INLINE void kl_record_aligned(const void* block, size_t align, size_t size) {
    KL_RECORD_IF_ON(kl_record_aligned_from(block, align, size, KL_RECORD_CALLER));
}

/* Records that the block is about to be freed. NULL is not recorded. */
KL_RECORD_INLINE void kl_record_free(const void* block) {
    KL_RECORD_IF_ON(kl_record_free_from(block, KL_RECORD_CALLER));
}

/* The same for an allocator whose release function takes the requested size, like C23's free_sized.
 * The replay then also uses such a function. `size` is the size that the program passed to your
 * release function. If it differs from the requested size, the journal contains the difference and
 * `keel info` reports it. Do not use this function for blocks that were allocated with an
 * alignment. */
KL_RECORD_INLINE void kl_record_free_sized(const void* block, size_t size) {
    KL_RECORD_IF_ON(kl_record_free_sized_from(block, size, KL_RECORD_CALLER));
}

/* The same for a block that was allocated with this alignment, like free_aligned_sized. */
KL_RECORD_INLINE void kl_record_free_aligned_sized(const void* block, size_t align, size_t size) {
    KL_RECORD_IF_ON(kl_record_free_aligned_sized_from(block, align, size, KL_RECORD_CALLER));
}

/* Record a reallocation to `size` bytes. Call `begin` before it and `end` after it on the same
 * thread, both with the old block. If the old block is NULL, the operation is an allocation. If the
 * new block is NULL, the reallocation failed and the old block stays live. If the new block is NULL
 * and the size is 0, the old block was freed. */
KL_RECORD_INLINE void kl_record_realloc_begin(const void* old_block, size_t size) {
    KL_RECORD_IF_ON(kl_record_realloc_begin_from(old_block, size, KL_RECORD_CALLER));
}
KL_RECORD_INLINE void kl_record_realloc_end(const void* old_block, const void* new_block,
                                            size_t size) {
    KL_RECORD_IF_ON(kl_record_realloc_end_from(old_block, new_block, size));
}

/* Records both in one call, after the reallocation. Use it only if no other thread can have
 * received the old address from the allocator yet, because the allocator holds a lock or resizes in
 * place. */
KL_RECORD_INLINE void kl_record_realloc(const void* old_block, const void* new_block, size_t size) {
    kl_record_realloc_begin(old_block, size);
    kl_record_realloc_end(old_block, new_block, size);
}

/* Marks the boundary between two frames. Call it once per frame, from one thread. The time before
 * the first call is frame 0. Reports treat it as the start of the program, not as a frame. */
KL_RECORD_INLINE void kl_record_frame(void) {
    KL_RECORD_IF_ON(kl_record_frame_now());
}

/* Records a marker, such as "level 2", in UTF-8. Only the first 240 bytes are kept. */
KL_RECORD_INLINE void kl_record_mark(const char* text) {
    KL_RECORD_IF_ON(kl_record_mark_now(text));
}

/* Names the calling thread in the journal. Only the first 15 bytes are kept. Without this call the
 * journal contains the system's name of the thread. */
KL_RECORD_INLINE void kl_record_thread_name(const char* name) {
    KL_RECORD_IF_ON(kl_record_thread_name_now(name));
}

/* ZONES. `keel check --zone scope=NAME` reports each call of malloc and free between
 * KEEL_ZONE_BEGIN(NAME) and KEEL_ZONE_END(NAME) on the thread that executes both. Zones of one name
 * may be nested. The name has at most 200 bytes. The macros are for programs whose malloc `keel
 * record` intercepts. They need no library: outside of a recording they test a pointer, and during
 * a recording each of them stores two to fifteen events. In C++, keel::zone begins a zone and ends
 * it at the end of its block. */
#if defined(_WIN32) /* where `keel record` does not exist */
#define KEEL_ZONE_AT(name, begins) ((void)(name))
#else
__attribute__((weak)) void kl_record_zone_now(const char* name, int begins);
#define KEEL_ZONE_AT(name, begins)                                                                 \
    do {                                                                                           \
        if (kl_record_zone_now) kl_record_zone_now(name, begins);                                  \
    } while (0)
#endif
#define KEEL_ZONE_BEGIN(name) KEEL_ZONE_AT(name, 1)
#define KEEL_ZONE_END(name) KEEL_ZONE_AT(name, 0)

#ifdef __cplusplus
}

namespace keel {
class zone {
  public:
    explicit zone(const char* name) noexcept : name_(name) { KEEL_ZONE_BEGIN(name_); }
    ~zone() { KEEL_ZONE_END(name_); }
    zone(const zone&) = delete;
    zone& operator=(const zone&) = delete;

  private:
    const char* name_;
};
} // namespace keel
#endif
#endif

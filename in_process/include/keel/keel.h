/* Keel: a general-purpose memory allocator with bounded slow paths.
 *
 * There are two ways to use it:
 *
 *   - As a replacement. Link or LD_PRELOAD libkeel; malloc, free, new and delete are then Keel's.
 *   - By direct call. Call the functions below, from libkeel or from libkeel_api. The latter leaves
 *     the program's malloc as it is.
 *
 * With libkeel both ways share one heap: free() accepts a block from kl_malloc, and kl_free accepts
 * one from malloc(). docs/guide/linking.md describes every way to link.
 *
 * These rules hold for every function, except where its comment says otherwise:
 *
 *   - Threads: it may be called from any thread at any time, also before constructors run and after
 *     destructors have run, but not from a signal handler.
 *   - Errors: it returns NULL and sets errno to ENOMEM if there is no memory or if the size exceeds
 *     PTRDIFF_MAX.
 *   - Blocks: a new block has undefined content and is aligned to 16 bytes, or to 8 bytes if at
 *     most 8 bytes were requested. Sizes are in bytes.
 *   - Cost: O(1), a bounded amount of work, apart from zeroing and copying, which are linear in the
 *     size. docs/concepts/latency-contract.md states each bound and the exceptions.
 *
 * Freeing or resizing a pointer that is not a live block is an error of the program. Some of these
 * errors end the process with a message on stderr; docs/reference/faults.md lists which ones, and
 * which ones are not detected.
 */
#ifndef KEEL_KEEL_H
#define KEEL_KEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEEL_VERSION_MAJOR 0
#define KEEL_VERSION_MINOR 1
#define KEEL_VERSION_PATCH 0

#if defined(__GNUC__)
#define KEEL_API __attribute__((visibility("default")))
#define KEEL_API_ALLOCATES(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))
#define KEEL_API_ALIGNED_AT(argument) __attribute__((alloc_align(argument)))
#define KEEL_API_RESIZES(...) __attribute__((warn_unused_result, alloc_size(__VA_ARGS__)))
#else
#define KEEL_API
#define KEEL_API_ALLOCATES(...)
#define KEEL_API_ALIGNED_AT(argument)
#define KEEL_API_RESIZES(...)
#endif

#ifdef __cplusplus
extern "C" {
#define KEEL_NOEXCEPT noexcept
#define KEEL_API_AS(type, block) static_cast<type*>(block)
#else
#define KEEL_NOEXCEPT
#define KEEL_API_AS(type, block) ((type*)(block))
#endif

/* --- Allocate and free ------------------------------------------------------------------------ */

/* Allocates at least `size` bytes. For size 0 it returns a unique block, which must be freed like
 * any other. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_malloc(size_t size) KEEL_NOEXCEPT;

/* Frees a block. Another thread may have allocated it. NULL is allowed and does nothing. errno is
 * preserved. */
KEEL_API void kl_free(void* block) KEEL_NOEXCEPT;

/* Allocates count * size bytes, all zero. Fails with ENOMEM if the product overflows. Linear in the
 * size, except for large blocks whose memory is known to be zero. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_calloc(size_t count, size_t size) KEEL_NOEXCEPT;

/* The same as kl_calloc(1, size). */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_zalloc(size_t size) KEEL_NOEXCEPT;

/* Allocates count * size bytes. Fails with ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_mallocn(size_t count, size_t size) KEEL_NOEXCEPT;

/* Resizes a block and keeps its content up to the smaller of the two sizes. The block may move, and
 * the new address is returned.
 *
 *   - block NULL: the same as kl_malloc(size).
 *   - size 0: frees the block and returns NULL, as the GNU C library does.
 *   - On failure it returns NULL and the old block is unchanged.
 *
 * The block stays in place if the new size fits and is at least half of its usable size. A block
 * above 64 KiB grows in place if the memory behind it is free, and from 4 MiB on it is moved
 * without copying where the system supports that (Linux 5.7 and later); neither holds for blocks in
 * an arena or in a heap from kl_heap_new. In all other cases the content is copied: linear in the
 * smaller size. */
KEEL_API KEEL_API_RESIZES(2) void* kl_realloc(void* block, size_t size) KEEL_NOEXCEPT;

/* The same as kl_realloc(block, count * size). If the product overflows it fails with ENOMEM, and
 * the block is unchanged. */
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_reallocn(void* block, size_t count,
                                                  size_t size) KEEL_NOEXCEPT;

/* Like kl_realloc, but frees the old block on failure. */
KEEL_API KEEL_API_RESIZES(2) void* kl_reallocf(void* block, size_t size) KEEL_NOEXCEPT;

/* Checks whether `size` fits in the block without moving it. Returns `block` if it does. Otherwise
 * returns NULL and changes neither the block nor errno. */
KEEL_API void* kl_expand(void* block, size_t size) KEEL_NOEXCEPT;

/* --- Aligned blocks --------------------------------------------------------------------------- */

/* Allocates `size` bytes at a multiple of `alignment`, which may be any power of two (otherwise
 * NULL and EINVAL). The order of the arguments is that of C11's aligned_alloc. Aligned blocks are
 * freed and resized like any other; kl_realloc keeps only the usual alignment when it moves the
 * block. */
KEEL_API KEEL_API_ALLOCATES(2)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_alloc(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* Allocates count * size bytes, all zero, at a multiple of `alignment`. Errors as for
 * kl_aligned_alloc; ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(2, 3)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_calloc(size_t alignment, size_t count,
                                                   size_t size) KEEL_NOEXCEPT;

/* Like kl_realloc, but the resized block is aligned to `alignment`. */
KEEL_API KEEL_API_RESIZES(3) void* kl_aligned_realloc(void* block, size_t alignment,
                                                      size_t size) KEEL_NOEXCEPT;

/* As POSIX defines it. Returns 0 and stores the block in *block; or EINVAL (`alignment` is not a
 * power of two or not a multiple of sizeof(void*)) or ENOMEM, and *block is unchanged. errno is
 * preserved. */
KEEL_API int kl_posix_memalign(void** block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Information about blocks ----------------------------------------------------------------- */

/* Returns the number of usable bytes at `block`, at least the size that was requested. Returns 0
 * for NULL and for blocks of another allocator. */
KEEL_API size_t kl_usable_size(const void* block) KEEL_NOEXCEPT;

/* Returns the usable size that a block from kl_malloc(size) would have. Requests
 * with the same good size use the same amount of memory. */
KEEL_API size_t kl_good_size(size_t size) KEEL_NOEXCEPT;

/* Returns true if the address is in memory that holds blocks of Keel. For blocks above 64 KiB only
 * the start address is recognised. */
KEEL_API bool kl_contains(const void* address) KEEL_NOEXCEPT;

/* --- Strings and paths ------------------------------------------------------------------------ */

/* Return a copy of the string, or of at most `length` characters of it, in a new block. NULL gives
 * NULL. Linear in the length. */
KEEL_API char* kl_strdup(const char* string) KEEL_NOEXCEPT;
KEEL_API char* kl_strndup(const char* string, size_t length) KEEL_NOEXCEPT;

/* As POSIX realpath: returns the absolute path without symbolic links. The result is written to
 * `resolved` (PATH_MAX bytes), or to a new block if `resolved` is NULL. On failure it returns NULL
 * and sets errno (ENOENT, EACCES, ELOOP and others). Makes system calls for each component. */
KEEL_API char* kl_realpath(const char* path, char* resolved) KEEL_NOEXCEPT;

/* --- Allocate by type ------------------------------------------------------------------------- */

/* These macros return a pointer to `type`: kl_malloc_of(struct node) is a struct node*, and
 * kl_mallocn_of(int, 10) is an int* to ten of them. */
#define kl_malloc_of(type) KEEL_API_AS(type, kl_malloc(sizeof(type)))
#define kl_zalloc_of(type) KEEL_API_AS(type, kl_zalloc(sizeof(type)))
#define kl_mallocn_of(type, count) KEEL_API_AS(type, kl_mallocn((count), sizeof(type)))
#define kl_calloc_of(type, count) KEEL_API_AS(type, kl_calloc((count), sizeof(type)))
#define kl_reallocn_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_reallocn((block), (count), sizeof(type)))
#define kl_recalloc_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_recalloc((block), (count), sizeof(type)))

/* --- Free with a known size ------------------------------------------------------------------- */

/* As C23 defines them: free a block whose requested size, or size and alignment, the caller knows.
 * This version looks the size up itself and does not check the arguments. */
KEEL_API void kl_free_sized(void* block, size_t size) KEEL_NOEXCEPT;
KEEL_API void kl_free_aligned_sized(void* block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Return the usable size as well ----------------------------------------------------------- */

/* These work like the functions without `u`. In addition they store the block's kl_usable_size in
 * *usable (0 if the result is NULL), which saves a second call. kl_urealloc stores the usable size
 * of the old block in *usable_before; kl_ufree stores that of the block that it frees. Each size
 * pointer may be NULL. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_umalloc(size_t size, size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_ucalloc(size_t count, size_t size,
                                                   size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(2) void* kl_urealloc(void* block, size_t size, size_t* usable_before,
                                               size_t* usable) KEEL_NOEXCEPT;
KEEL_API void kl_ufree(void* block, size_t* usable) KEEL_NOEXCEPT;

/* --- Resize and zero the new bytes ------------------------------------------------------------ */

/* These work like kl_realloc and its variants. In addition every byte beyond the old size is zero.
 * This holds only for blocks that came from a zeroing function (kl_calloc, kl_zalloc,
 * kl_aligned_calloc, their variants for heaps, or the functions below) and that only the functions
 * below have resized. For other blocks
 * the bytes between the old size and kl_usable_size are undefined. Linear in the larger size. */
KEEL_API KEEL_API_RESIZES(2) void* kl_rezalloc(void* block, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_recalloc(void* block, size_t count,
                                                  size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(3) void* kl_aligned_rezalloc(void* block, size_t alignment,
                                                       size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(3, 4) void* kl_aligned_recalloc(void* block, size_t alignment,
                                                          size_t count, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4) void* kl_aligned_rezalloc_at(void* block, size_t alignment,
                                                          size_t offset, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4, 5) void* kl_aligned_recalloc_at(void* block, size_t alignment,
                                                             size_t offset, size_t count,
                                                             size_t size) KEEL_NOEXCEPT;

/* --- Aligned at an offset --------------------------------------------------------------------- */

/* Allocate a block for which block + offset is a multiple of the alignment, for example when the
 * data after a header must be aligned. They allocate `size` bytes, or count * size
 * bytes that are all zero. kl_aligned_realloc_at keeps the alignment. Such blocks are freed and
 * resized like any other.
 *
 * An offset that is a multiple of the alignment is the same as offset 0. For other
 * offsets an alignment above 64 KiB fails with EINVAL, the call takes a lock, and the block needs
 * up to alignment - 1 bytes more. */
KEEL_API KEEL_API_ALLOCATES(3) void* kl_aligned_alloc_at(size_t alignment, size_t offset,
                                                         size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(3, 4) void* kl_aligned_calloc_at(size_t alignment, size_t offset,
                                                             size_t count,
                                                             size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4) void* kl_aligned_realloc_at(void* block, size_t alignment,
                                                         size_t offset, size_t size) KEEL_NOEXCEPT;

/* --- POSIX and BSD names ---------------------------------------------------------------------- */

/* The same as kl_reallocn. */
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_reallocarray(void* block, size_t count,
                                                      size_t size) KEEL_NOEXCEPT;

/* Like kl_aligned_alloc, with any alignment, which is rounded up to the next power of two. */
KEEL_API KEEL_API_ALLOCATES(2) void* kl_memalign(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* Allocate `size` bytes aligned to a page of the system. kl_pvalloc also rounds the size up to
 * whole pages. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_valloc(size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1) void* kl_pvalloc(size_t size) KEEL_NOEXCEPT;

/* The same as kl_usable_size. */
KEEL_API size_t kl_malloc_usable_size(const void* block) KEEL_NOEXCEPT;

/* --- Control when work is done ---------------------------------------------------------------- */

/* Starts the keeper: a thread that obtains memory from the system before the program needs it, and
 * returns memory that the program has not needed for a while. The program's own threads then need
 * not do either. Returns true if the keeper runs.
 *
 * The environment variable KEEL_KEEPER decides when it starts by itself:
 *
 *   - auto (default): when a second thread allocates;
 *   - on: as auto, and also when Keel holds 2 MiB more than at the start or fork of the process;
 *   - off: never.
 *
 * Do not call this function from a constructor. A program that calls unshare(CLONE_NEWUSER) or
 * setns, or that changes its user or capabilities, has to do so before it calls this function.
 * After a fork the child has no keeper; the same rules start one there. */
KEEL_API bool kl_keeper_start(void) KEEL_NOEXCEPT;

/* Makes at least `bytes` of memory ready for blocks of up to 64 KiB and keeps that much ready from
 * now on. New pages of blocks then use ready memory; without this call the first pages of each size
 * class get memory only when it is touched. kl_warm(0) ends this. Returns the
 * number of bytes that could be made ready, which is less than `bytes` if the system has no more.
 * Linear in `bytes`: meant for start-up and for loading a level. */
KEEL_API size_t kl_warm(size_t bytes) KEEL_NOEXCEPT;

/* Says that the calling thread has nothing to do at the moment, for example between two frames.
 * Keel collects the blocks of this thread that other threads freed, and passes on the blocks of
 * other threads that this thread freed. Without a keeper it also returns surplus memory to the
 * system. Takes at most about 0.1 ms. */
KEEL_API void kl_thread_idle(void) KEEL_NOEXCEPT;

/* Says that the calling thread has a deadline: an audio callback, for example, or a render thread.
 * The thread gets a private reserve of up to `spare_bytes` of warm memory (rounded up to 64 KiB, at
 * most 2 MiB), which the keeper refills. From now on no malloc or free of this thread does
 * maintenance or wakes the keeper. 0 ends this mode, as does the end of the thread. Works best
 * with a running keeper (kl_keeper_start); without one kl_thread_idle refills the reserve. Returns
 * false if there is no memory. */
KEEL_API bool kl_thread_set_realtime(size_t spare_bytes) KEEL_NOEXCEPT;

/* With `force`, returns all unused memory to the system: that of the calling thread, that of
 * threads that have ended, and memory that no thread owns. Linear in its amount; it takes
 * milliseconds for gigabytes. Without `force`, the same as kl_thread_idle. In both cases it calls
 * the handler of kl_register_deferred_free (keel/runtime.h). */
KEEL_API void kl_collect(bool force) KEEL_NOEXCEPT;

/* --- Statistics ------------------------------------------------------------------------------- */

/* Receives a report piece by piece. `text` is terminated by a zero byte. Must not allocate from
 * Keel. */
typedef void kl_output(const char* text, void* argument);

/* Prints a readable table through `output`, or to stderr if `output` is NULL: counts, and how long
 * each slow path took (in ns, by powers of two). Allocates nothing. Linear in the heaps, size
 * classes and arenas. Counts of other threads are
 * snapshots. The same report is printed when the process ends if its environment has KEEL_STATS=1.
 */
KEEL_API void kl_stats_print(kl_output* output, void* argument) KEEL_NOEXCEPT;

/* Writes the same report as one JSON object, in the manner of snprintf: it writes at most `size`
 * bytes including the terminator, and returns the length of the whole text without the terminator.
 * kl_stats_json(NULL, 0) returns the length that the text has at this moment. */
KEEL_API size_t kl_stats_json(char* buffer, size_t size) KEEL_NOEXCEPT;

/* The process as the system sees it, and the memory that Keel holds. Times are in milliseconds,
 * sizes in bytes. */
struct kl_process {
    uint64_t elapsed_ms;     /* since the allocator started */
    uint64_t user_ms;        /* processor time in the program */
    uint64_t system_ms;      /* processor time in the kernel on its behalf */
    uint64_t rss_bytes;      /* resident now */
    uint64_t rss_peak_bytes; /* highest resident size so far */
    uint64_t major_faults;   /* page faults that read from a disk */
    uint64_t minor_faults;   /* all other page faults */
    uint64_t held_bytes;     /* in pages and large blocks, whether the program uses them or not */
    uint64_t unused_bytes;   /* in no page or block, and not yet returned to the system */
};

/* Fills *process. Makes a few system calls. */
KEEL_API void kl_process_info(struct kl_process* process) KEEL_NOEXCEPT;

/* --- Version ---------------------------------------------------------------------------------- */

/* Returns the version of the loaded library: major * 10000 + minor * 100 + patch. */
KEEL_API int kl_version(void) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

/* Keel: a general-purpose memory allocator with bounded slow paths.
 *
 * There are two ways to use it:
 *
 *   - As a replacement. Link libkeel, or load it with LD_PRELOAD. Then malloc, free, new and delete
 *     call Keel.
 *   - By direct calls. Call the functions below. libkeel and libkeel_api contain them; libkeel_api
 *     does not replace the program's malloc.
 *
 * With libkeel both ways use the same allocator: free() accepts a block from kl_malloc, and kl_free
 * accepts one from malloc(). libkeel has three flavours (build variants): the plain one, the secure
 * one (libkeel-secure) and the debug one (libkeel-debug). docs/guide/linking.md describes every way
 * to link.
 *
 * These rules apply to every function, unless its comment states an exception:
 *
 *   - Threads: any thread may call it at any time, also before constructors run and after
 *     destructors have run. A signal handler must not call it. It is not a cancellation point.
 *   - Errors: a function that allocates returns NULL and sets errno to ENOMEM if there is no memory
 *     or if the size exceeds PTRDIFF_MAX.
 *   - Blocks: a new block has undefined content and is aligned to 16 bytes, or to 8 bytes if at
 *     most 8 bytes were requested. Sizes are in bytes.
 *   - Cost: O(1), a bounded amount of work. Zeroing and copying are linear in the size.
 *     docs/concepts/latency-contract.md states each bound and the exceptions.
 *
 * A live block is one that has been allocated and not yet freed. A program may free and resize only
 * live blocks and NULL. Keel detects some violations of this rule, and then ends the process with a
 * message on stderr. docs/reference/faults.md lists the errors that Keel detects and those that it
 * does not.
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

/* Allocates at least `size` bytes. For size 0 it returns a unique block. This block must be freed
 * like any other. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_malloc(size_t size) KEEL_NOEXCEPT;

/* Frees a block, also one that another thread allocated. Does nothing if `block` is NULL. errno is
 * preserved. */
KEEL_API void kl_free(void* block) KEEL_NOEXCEPT;

/* Allocates count * size bytes, all zero. Fails with ENOMEM if the product overflows. The cost is
 * linear in the size, unless the memory is known to be zero: such memory is not zeroed again. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_calloc(size_t count, size_t size) KEEL_NOEXCEPT;

/* The same as kl_calloc(1, size). */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_zalloc(size_t size) KEEL_NOEXCEPT;

/* Allocates count * size bytes. Fails with ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_mallocn(size_t count, size_t size) KEEL_NOEXCEPT;

/* Resizes a block and keeps its content up to the smaller of the two sizes. Returns the address of
 * the resized block, which may differ from the old address.
 *
 *   - block NULL: the same as kl_malloc(size).
 *   - size 0: frees the block and returns NULL, as the GNU C library does.
 *   - On failure it returns NULL and the old block is unchanged.
 *
 * The function tries these ways in turn:
 *
 *   - If the new size is at most the block's usable size and at least half of it, the block stays
 *     in place.
 *   - If the block has more than 64 KiB and the memory after it is free, the block grows in place.
 *   - If the block has 4 MiB or more, Linux 5.7 and later move it without copying its content.
 *   - Otherwise the content is copied to a new block. The cost is linear in the smaller size.
 *
 * For blocks in an arena (keel/arena.h) or in a heap from kl_heap_new, the function tries only the
 * first and the last of these ways. */
KEEL_API KEEL_API_RESIZES(2) void* kl_realloc(void* block, size_t size) KEEL_NOEXCEPT;

/* The same as kl_realloc(block, count * size). If the product overflows, the call fails with ENOMEM
 * and the block is unchanged. */
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_reallocn(void* block, size_t count,
                                                  size_t size) KEEL_NOEXCEPT;

/* Like kl_realloc, but frees the old block on failure. */
KEEL_API KEEL_API_RESIZES(2) void* kl_reallocf(void* block, size_t size) KEEL_NOEXCEPT;

/* Returns `block` if its usable size is at least `size`, else NULL. Changes neither the block nor
 * errno. */
KEEL_API void* kl_expand(void* block, size_t size) KEEL_NOEXCEPT;

/* --- Aligned blocks --------------------------------------------------------------------------- */

/* Allocates `size` bytes at an address that is a multiple of `alignment`. `alignment` may be any
 * power of two; for other values the function returns NULL and sets errno to EINVAL. The arguments
 * have the same order as in C11's aligned_alloc. Aligned blocks are freed and resized like other
 * blocks. If kl_realloc moves such a block, the new block has only the alignment of kl_malloc. */
KEEL_API KEEL_API_ALLOCATES(2)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_alloc(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* Allocates count * size bytes, all zero, at an address that is a multiple of `alignment`. Fails
 * like kl_aligned_alloc, and with ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(2, 3)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_calloc(size_t alignment, size_t count,
                                                   size_t size) KEEL_NOEXCEPT;

/* Like kl_realloc, but the resized block is aligned to `alignment`. */
KEEL_API KEEL_API_RESIZES(3) void* kl_aligned_realloc(void* block, size_t alignment,
                                                      size_t size) KEEL_NOEXCEPT;

/* Works as POSIX defines posix_memalign. Returns 0 and stores the address of the block in *block.
 * Returns EINVAL if `alignment` is not a power of two or not a multiple of sizeof(void*). Returns
 * ENOMEM if there is no memory. On failure *block is unchanged. errno is preserved. */
KEEL_API int kl_posix_memalign(void** block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Information about blocks ----------------------------------------------------------------- */

/* Returns the number of usable bytes at `block`, which is at least the requested size. Returns 0
 * for NULL and for blocks of another allocator. The secure and debug flavours end the process if
 * `block` is in Keel's memory but is not a live block. */
KEEL_API size_t kl_usable_size(const void* block) KEEL_NOEXCEPT;

/* Returns the usable size that a block from kl_malloc(size) would have. Requests with the same good
 * size use the same amount of memory. */
KEEL_API size_t kl_good_size(size_t size) KEEL_NOEXCEPT;

/* Returns true if the address is in memory that Keel has divided into blocks of at most 64 KiB,
 * whether the block there is live or free. Returns true, too, for the first 64 KiB of a larger live
 * block. */
KEEL_API bool kl_contains(const void* address) KEEL_NOEXCEPT;

/* --- Strings and paths ------------------------------------------------------------------------ */

/* Return a new block with a copy of the string. kl_strndup copies at most `length` characters. For
 * NULL they return NULL. The cost is linear in the length. */
KEEL_API char* kl_strdup(const char* string) KEEL_NOEXCEPT;
KEEL_API char* kl_strndup(const char* string, size_t length) KEEL_NOEXCEPT;

/* Works like POSIX realpath: it returns the absolute path without symbolic links. It writes the
 * result to `resolved` (PATH_MAX bytes), or to a new block if `resolved` is NULL. On failure it
 * returns NULL and sets errno (ENOENT, EACCES, ELOOP and others). It makes system calls for each
 * component of the path. */
KEEL_API char* kl_realpath(const char* path, char* resolved) KEEL_NOEXCEPT;

/* --- Allocate by type ------------------------------------------------------------------------- */

/* These macros return a pointer to `type`: kl_malloc_of(struct node) returns a struct node*, and
 * kl_mallocn_of(int, 10) returns an int* to ten ints. */
#define kl_malloc_of(type) KEEL_API_AS(type, kl_malloc(sizeof(type)))
#define kl_zalloc_of(type) KEEL_API_AS(type, kl_zalloc(sizeof(type)))
#define kl_mallocn_of(type, count) KEEL_API_AS(type, kl_mallocn((count), sizeof(type)))
#define kl_calloc_of(type, count) KEEL_API_AS(type, kl_calloc((count), sizeof(type)))
#define kl_reallocn_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_reallocn((block), (count), sizeof(type)))
#define kl_recalloc_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_recalloc((block), (count), sizeof(type)))

/* --- Free with a known size ------------------------------------------------------------------- */

/* These work as C23 defines free_sized and free_aligned_sized. The caller passes the size, or the
 * size and alignment, that were requested for the block. The secure and debug flavours verify these
 * values; the plain flavour ignores them. */
KEEL_API void kl_free_sized(void* block, size_t size) KEEL_NOEXCEPT;
KEEL_API void kl_free_aligned_sized(void* block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Return the usable size as well ----------------------------------------------------------- */

/* These work like the functions without `u`. They also store the block's usable size in *usable, or
 * 0 if the result is NULL. This saves a call of kl_usable_size. kl_urealloc stores the usable size
 * of the old block in *usable_before. kl_ufree stores the usable size of the block that it frees.
 * Each size pointer may be NULL. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_umalloc(size_t size, size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_ucalloc(size_t count, size_t size,
                                                   size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(2) void* kl_urealloc(void* block, size_t size, size_t* usable_before,
                                               size_t* usable) KEEL_NOEXCEPT;
KEEL_API void kl_ufree(void* block, size_t* usable) KEEL_NOEXCEPT;

/* --- Resize and zero the new bytes ------------------------------------------------------------ */

/* These work like kl_realloc and its variants. They also set every byte beyond the old size to
 * zero. They can do this only if two conditions hold. First, a function of this section allocated
 * the block, or one with calloc or zalloc in its name (kl_calloc, kl_aligned_calloc_at,
 * kl_heap_zalloc, ...). Second, only the functions of this section have resized it. Otherwise the
 * bytes from the old size up to the old usable size can have any value. The cost is linear in the
 * larger size. */
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

/* Allocate a block such that block + offset is a multiple of the alignment. A program can, for
 * example, align the data that follows a header of `offset` bytes. kl_aligned_alloc_at allocates
 * `size` bytes. kl_aligned_calloc_at allocates count * size bytes, all zero. kl_aligned_realloc_at
 * resizes a block, and the new block has the same property. These blocks are freed and resized like
 * other blocks.
 *
 * If the offset is a multiple of the alignment, the call is the same as with offset 0. With any
 * other offset, the call takes a lock, and the block needs up to alignment - 1 additional bytes.
 * Such a call fails with EINVAL if the alignment is above 64 KiB. */
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

/* Like kl_aligned_alloc, but accepts any alignment and rounds it up to the next power of two. */
KEEL_API KEEL_API_ALLOCATES(2) void* kl_memalign(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* Allocate `size` bytes aligned to a system page. kl_pvalloc also rounds the size up to whole
 * system pages. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_valloc(size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1) void* kl_pvalloc(size_t size) KEEL_NOEXCEPT;

/* The same as kl_usable_size. */
KEEL_API size_t kl_malloc_usable_size(const void* block) KEEL_NOEXCEPT;

/* --- Check the heap --------------------------------------------------------------------------- */

/* Only for the debug flavour (libkeel-debug); in other flavours it does nothing and returns 0.
 *
 * Verifies that the program has not written beyond either end of a block, or to a freed block. (The
 * debug flavour keeps freed blocks for some time before it reuses them.) Ends the process with a
 * message at the first fault (docs/reference/faults.md). Returns the number of verified blocks. The
 * cost is linear in that number and in the size of the freed blocks that are kept. */
KEEL_API size_t kl_check_all(void) KEEL_NOEXCEPT;

/* --- Background thread and maintenance -------------------------------------------------------- */

/* Starts the keeper, Keel's background thread. The keeper obtains memory from the system before the
 * program needs it, and returns memory that the program has not needed for a while. The program's
 * own threads then do not have to do this work. Returns true if the keeper is running. It cannot be
 * started if the environment variable KEEL_KEEPER is `off`.
 *
 * This function starts the keeper as an ordinary thread. Do not call it from a constructor. A
 * program that calls unshare(CLONE_NEWUSER) or setns, or that changes its user or capabilities,
 * must do so before it calls this function. A fork does not copy the keeper.
 *
 * A program does not need to call this function, because Keel also starts the keeper automatically
 * (and again in a child after a fork). KEEL_KEEPER determines when:
 *
 *   - auto (default): when a second thread allocates, or when the memory that Keel uses has grown
 *     by 3 MiB since the start of the process (in a child: since the fork);
 *   - on: when a second thread allocates, or when that memory has grown by 2 MiB;
 *   - off: never.
 *
 * If the process has one thread when Keel starts the keeper, the keeper is a confined thread: the C
 * library does not know it, and it can only manage memory. The confined thread ends in three cases:
 *
 *   - The process forks. Keel starts a new one when it next needs one.
 *   - With libkeel: the program calls unshare or setns. Keel starts a new one when it next needs
 *     one.
 *   - With libkeel: the program enters a sandbox by a call of prctl(PR_SET_NO_NEW_PRIVS) or
 *     prctl(PR_SET_SECCOMP). Keel never starts a confined thread again. If KEEL_KEEPER is `on`, it
 *     starts an ordinary thread.
 *
 * Confined threads need glibc on x86-64 or arm64. On other systems a process with one thread gets a
 * keeper only if KEEL_KEEPER is `on`; that keeper is an ordinary thread. */
KEEL_API bool kl_keeper_start(void) KEEL_NOEXCEPT;

/* Prepares at least `bytes` bytes of warm memory for blocks of up to 64 KiB, and keeps this amount
 * available from now on. Warm memory is free memory that the system has already provided, so using
 * it causes no page fault. Keel then uses warm memory for its new pages. (A page holds blocks of
 * one size class. Its size is 64 KiB or 256 KiB.) Without this call, the first memory of each size
 * class is not warm: each of its system pages causes a page fault at the first access. After
 * kl_warm(0) Keel no longer keeps this amount available. Returns the number of bytes that could be
 * prepared, which is less than `bytes` if the system has no more memory. The cost is linear in
 * `bytes`: call it at program start or when a level is loaded. */
KEEL_API size_t kl_warm(size_t bytes) KEEL_NOEXCEPT;

/* Informs Keel that the calling thread has nothing to do at the moment, for example between two
 * frames. Keel does work that later calls of malloc and free would otherwise do. If other threads
 * have freed blocks of this thread, it takes them back. If this thread has freed blocks of other
 * threads, it returns them to those threads. If no keeper runs, it also returns surplus memory to
 * the system. The call takes at most about 0.1 ms. */
KEEL_API void kl_thread_idle(void) KEEL_NOEXCEPT;

/* Makes the calling thread a realtime thread. Use it for threads with deadlines, such as audio or
 * render threads. The thread gets a private reserve of up to `spare_bytes` bytes of warm memory.
 * `spare_bytes` is rounded up to a multiple of 64 KiB; above 2 MiB it has the effect of 2 MiB.
 *
 * The thread is a realtime thread until it passes 0 to this function or exits. Until then, its
 * calls of malloc and free return no memory to the system, do no maintenance for other heaps, and
 * do not wake the keeper. Use this function together with a running keeper (kl_keeper_start), which
 * refills the reserve. Without a keeper, kl_thread_idle refills it. Returns false if there is no
 * memory, or if the thread is exiting and no longer has a heap. */
KEEL_API bool kl_thread_set_realtime(size_t spare_bytes) KEEL_NOEXCEPT;

/* If `force` is true, the function returns all unused memory to the system, with two exceptions:
 * unused memory in the heaps of other running threads, and in heaps from kl_heap_new. The cost is
 * linear in the amount of returned memory: 30 to 100 ms for each GiB. If `force` is false, the
 * function works like kl_thread_idle. In both cases it calls the handler that
 * kl_register_deferred_free (keel/runtime.h) has set. */
KEEL_API void kl_collect(bool force) KEEL_NOEXCEPT;

/* --- Statistics ------------------------------------------------------------------------------- */

/* A function that receives a report in several pieces. A zero byte terminates `text`. The function
 * must not allocate from Keel. */
typedef void kl_output(const char* text, void* argument);

/* Prints a report with `output`, or to stderr if `output` is NULL. The report contains counts of
 * events and, for each slow path, a histogram of its times in ns, with a bucket for each power of
 * two. The function allocates nothing. The cost is linear in the number of heaps, size classes and
 * arenas. Other threads may change their counts while the function runs, so the counts may belong
 * to slightly different times. If the environment variable KEEL_STATS is 1, Keel prints the same
 * report when the process ends. */
KEEL_API void kl_stats_print(kl_output* output, void* argument) KEEL_NOEXCEPT;

/* Writes the same report to `buffer` as one JSON object. Like snprintf, it writes at most `size`
 * bytes including the terminator, and returns the length of the whole text without the terminator.
 * kl_stats_json(NULL, 0) returns the length that the text has at this moment. */
KEEL_API size_t kl_stats_json(char* buffer, size_t size) KEEL_NOEXCEPT;

/* The times, memory and page faults of the process. Times are in milliseconds, sizes in bytes. The
 * last two members are about Keel only; the others are about the whole process. */
struct kl_process {
    uint64_t elapsed_ms;     /* since the allocator started */
    uint64_t user_ms;        /* processor time in the program */
    uint64_t system_ms;      /* processor time in the kernel for the program */
    uint64_t rss_bytes;      /* resident now */
    uint64_t rss_peak_bytes; /* highest resident size so far */
    uint64_t major_faults;   /* page faults that read from a disk */
    uint64_t minor_faults;   /* all other page faults */
    uint64_t held_bytes;     /* in pages (including their free blocks) and in large blocks */
    uint64_t unused_bytes;   /* resident memory that is in no page and in no large block */
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

/* Keel: a general-purpose memory allocator with bounded slow paths.
 *
 * Two ways to use it. As a drop-in: link or LD_PRELOAD libkeel, and malloc, free, new and delete
 * are Keel's. Or by name: the functions below, from libkeel or from libkeel_api, which replaces
 * nothing. Blocks of the two ways are the same: with libkeel, free() takes what kl_malloc gave.
 * docs/guide/linking.md has every way to link either.
 *
 * Unless said otherwise, every function
 *   - may be called from any thread at any time, also before constructors and after destructors, but not from a
 *     signal handler;
 *   - returns NULL and sets errno to ENOMEM when there is no memory or the size is above PTRDIFF_MAX;
 *   - gives blocks aligned to 16 bytes (to 8 for requests of at most 8 bytes), with undefined content;
 *   - costs O(1): a bounded amount of work, except for what is linear by nature (zeroing, copying) and
 *     what its text names.
 *
 * Handing a function a pointer that is no live block is an error of the program. What is found of
 * that at no cost ends the process with one sentence on stderr; the faults and their sentences are
 * in docs/reference/faults.md.
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

/* --- Allocating and freeing -------------------------------------------------------------------- */

/* At least `size` bytes. size 0 gives a block of its own, which must be freed as any other. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_malloc(size_t size) KEEL_NOEXCEPT;

/* Frees a block, from whichever thread. NULL is allowed and does nothing. errno is kept. */
KEEL_API void kl_free(void* block) KEEL_NOEXCEPT;

/* count * size bytes, all zero. ENOMEM if the product overflows. Linear in the size, except for
 * large blocks whose memory is known to be zero. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_calloc(size_t count, size_t size) KEEL_NOEXCEPT;

/* `size` zero bytes: kl_calloc(1, size). */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_zalloc(size_t size) KEEL_NOEXCEPT;

/* count * size bytes. ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_mallocn(size_t count, size_t size) KEEL_NOEXCEPT;

/* Resizes: the content up to the smaller of both sizes is kept; the block may move. block NULL is
 * kl_malloc(size); size 0 frees the block and returns NULL (as the GNU C library does). On failure
 * the old block stays as it was. In place when it fits, when it does not waste half, and when the
 * memory behind a block above 64 KiB is free. A block that grows to 4 MiB or more moves without
 * copying, where the system can (Linux 5.7) and it lies in no arena or first-class heap; else linear
 * in the smaller size. */
KEEL_API KEEL_API_RESIZES(2) void* kl_realloc(void* block, size_t size) KEEL_NOEXCEPT;

/* kl_realloc(block, count * size). ENOMEM if the product overflows; then the block stays as it
 * was.
 * */
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_reallocn(void* block, size_t count,
                                                  size_t size) KEEL_NOEXCEPT;

/* As kl_realloc, but frees the old block when it fails. */
KEEL_API KEEL_API_RESIZES(2) void* kl_reallocf(void* block, size_t size) KEEL_NOEXCEPT;

/* Resizes without moving: returns `block` if `size` fits in it, else NULL (block unchanged, errno
 * unchanged). */
KEEL_API void* kl_expand(void* block, size_t size) KEEL_NOEXCEPT;

/* --- Aligned ----------------------------------------------------------------------------------- */

/* Aligned to `alignment`, any power of two (else NULL and EINVAL). Freed and resized as any block;
 * kl_realloc keeps only the usual alignment when it moves the block. The argument order is C11's.
 * */
KEEL_API KEEL_API_ALLOCATES(2)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_alloc(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* The same, zeroed; count * size bytes. */
KEEL_API KEEL_API_ALLOCATES(2, 3)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_calloc(size_t alignment, size_t count,
                                                   size_t size) KEEL_NOEXCEPT;

/* kl_realloc that keeps the alignment. */
KEEL_API KEEL_API_RESIZES(3) void* kl_aligned_realloc(void* block, size_t alignment,
                                                      size_t size) KEEL_NOEXCEPT;

/* POSIX: 0, EINVAL (alignment is no power of two or no multiple of sizeof(void*)) or ENOMEM; errno
 * is kept, and *block is written only on success. */
KEEL_API int kl_posix_memalign(void** block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Aligned at an offset: block + offset is a multiple of the alignment ---------------------------
 *
 * For a block that begins with a header, say, whose payload is to be aligned. An offset that is a
 * multiple of the alignment is as none; with any other the alignment is at most 64 KiB (else NULL
 * and EINVAL), the call takes a lock, and the block takes up to alignment - 1 bytes more. Such
 * blocks are freed and resized as any. kl_aligned_realloc_at keeps the alignment. size or count *
 * size bytes, all zero for calloc. */
KEEL_API KEEL_API_ALLOCATES(3) void* kl_aligned_alloc_at(size_t alignment, size_t offset,
                                                         size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(3, 4) void* kl_aligned_calloc_at(size_t alignment, size_t offset,
                                                             size_t count,
                                                             size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4) void* kl_aligned_realloc_at(void* block, size_t alignment,
                                                         size_t offset, size_t size) KEEL_NOEXCEPT;

/* --- Resizing blocks that are zero behind what was written ------------------------------------------
 *
 * As kl_realloc, and every byte beyond the old size is zero. Only for blocks that came from a
 * zeroing function (kl_calloc, kl_zalloc, kl_aligned_calloc, a heap's forms of them, or these) and
 * have only been resized by these; of others the bytes between the old size and kl_usable_size are
 * undefined. Linear in the larger size. */
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

/* --- With the sizes that really are -----------------------------------------------------------------
 *
 * As the functions without `u`, and *usable gets kl_usable_size of the block (0 with NULL), which
 * saves a second call. kl_urealloc tells of the old block too; kl_ufree of the block that it
 * frees. The pointers to sizes may be NULL. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_umalloc(size_t size, size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_ucalloc(size_t count, size_t size,
                                                   size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(2) void* kl_urealloc(void* block, size_t size, size_t* usable_before,
                                               size_t* usable) KEEL_NOEXCEPT;
KEEL_API void kl_ufree(void* block, size_t* usable) KEEL_NOEXCEPT;

/* C23: frees a block that the caller knows the size, or the size and alignment, of, as it was
 * asked for. The plain flavour looks the size up itself and does not compare. */
KEEL_API void kl_free_sized(void* block, size_t size) KEEL_NOEXCEPT;
KEEL_API void kl_free_aligned_sized(void* block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- By type: kl_malloc_of(struct node) is a struct node*, kl_mallocn_of(int, 10) an int* for ten ---- */

#define kl_malloc_of(type) KEEL_API_AS(type, kl_malloc(sizeof(type)))
#define kl_zalloc_of(type) KEEL_API_AS(type, kl_zalloc(sizeof(type)))
#define kl_mallocn_of(type, count) KEEL_API_AS(type, kl_mallocn((count), sizeof(type)))
#define kl_calloc_of(type, count) KEEL_API_AS(type, kl_calloc((count), sizeof(type)))
#define kl_reallocn_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_reallocn((block), (count), sizeof(type)))
#define kl_recalloc_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_recalloc((block), (count), sizeof(type)))

/* --- Under their POSIX and BSD names ----------------------------------------------------------- */

/* As the functions without kl_: kl_reallocn; kl_aligned_alloc with any alignment, taken up to the
 * next power of two; aligned to a page of the system; the same and the size rounded up to whole
 * pages; kl_usable_size. */
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_reallocarray(void* block, size_t count,
                                                      size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2) void* kl_memalign(size_t alignment, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1) void* kl_valloc(size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1) void* kl_pvalloc(size_t size) KEEL_NOEXCEPT;
KEEL_API size_t kl_malloc_usable_size(const void* block) KEEL_NOEXCEPT;

/* --- Strings ----------------------------------------------------------------------------------- */

/* Copies of a string, and of at most `length` characters of it. NULL gives NULL. Linear. */
KEEL_API char* kl_strdup(const char* string) KEEL_NOEXCEPT;
KEEL_API char* kl_strndup(const char* string, size_t length) KEEL_NOEXCEPT;

/* As POSIX realpath: the absolute path without links, in `resolved` (PATH_MAX bytes), or in a
 * block of Keel's if that is NULL. NULL and errno (ENOENT, EACCES, ELOOP ..) if there is none.
 * System calls for each part of the path. */
KEEL_API char* kl_realpath(const char* path, char* resolved) KEEL_NOEXCEPT;

/* --- About blocks ------------------------------------------------------------------------------ */

/* Bytes that may be used at `block`, at least what was asked for. 0 for NULL and for blocks that
 * are not Keel's. */
KEEL_API size_t kl_usable_size(const void* block) KEEL_NOEXCEPT;

/* What kl_usable_size of kl_malloc(size) would be: asking for less gains nothing. */
KEEL_API size_t kl_good_size(size_t size) KEEL_NOEXCEPT;

/* True if the address is in memory that holds blocks of Keel's. Above 64 KiB only the block's
 * start is recognised. */
KEEL_API bool kl_contains(const void* address) KEEL_NOEXCEPT;

/* --- The allocator ----------------------------------------------------------------------------- */

/* With `force`: gives all memory that is not in use back to the system: of the calling thread, of
 * threads that have ended, and of nobody. Linear in that; milliseconds for gigabytes. Without:
 * kl_thread_idle. Both call what kl_register_deferred_free has registered. */
KEEL_API void kl_collect(bool force) KEEL_NOEXCEPT;

/* Starts the keeper: a thread that asks the system for memory before the program needs it, and
 * gives back what the program has not needed for a while, so that calls on the program's threads
 * do neither. It starts by itself once a second thread allocates (environment KEEL_KEEPER=auto,
 * the default), also once the process holds 2 MiB more than at its start or fork (on), or never
 * (off). True: it runs. Not from a constructor, and not before a program that will call
 * unshare(CLONE_NEWUSER) or setns, or change its user or capabilities, has done so. A child of fork
 * has no keeper until it starts one. */
KEEL_API bool kl_keeper_start(void) KEEL_NOEXCEPT;

/* Has at least `bytes` of memory ready for blocks of up to 64 KiB, now and from now on (0: as the
 * demand calls for); every page then begins on memory that is there, where otherwise the first
 * ones of a size occupy only what is touched of them. Linear in `bytes`: for start-up and level
 * load. The memory that could be made ready; less when the system has no more. */
KEEL_API size_t kl_warm(size_t bytes) KEEL_NOEXCEPT;

/* This thread has nothing to do just now (between frames): takes home what others freed of it and
 * sends home what it freed of others; without a keeper also gives back surplus. At most about 0.1
 * ms. */
KEEL_API void kl_thread_idle(void) KEEL_NOEXCEPT;

/* The calling thread has a deadline (an audio callback, a render thread): it gets up to
 * `spare_bytes` (rounded up to 64 KiB, at most 2 MiB) of warm memory of its own, which the keeper
 * fills up again, and from now on no malloc or free of this thread does housekeeping or wakes the
 * keeper. 0 ends that, as does the end of the thread. Best with a running keeper
 * (kl_keeper_start); without one kl_thread_idle fills the spare. False: no memory. */
KEEL_API bool kl_thread_set_realtime(size_t spare_bytes) KEEL_NOEXCEPT;

/* major * 10000 + minor * 100 + patch, of the library that runs. */
KEEL_API int kl_version(void) KEEL_NOEXCEPT;

/* --- Statistics -------------------------------------------------------------------------------- */

/* Receives a report piece by piece; `text` is terminated. Must not allocate from Keel. */
typedef void kl_output(const char* text, void* argument);

/* The report as a table for people, through `output`, to stderr if it is NULL: counts, and how
 * long each of the slow paths took (ns, by powers of two). Allocates nothing. Counts of other
 * threads are momentary. Also printed at the end of the process when KEEL_STATS=1 is in its
 * environment. */
KEEL_API void kl_stats_print(kl_output* output, void* argument) KEEL_NOEXCEPT;

/* The same as one JSON object, as snprintf would: writes at most size bytes with the terminator,
 * returns the length of the whole text without it. kl_stats_json(NULL, 0) tells how much is needed
 * at this moment. */
KEEL_API size_t kl_stats_json(char* buffer, size_t size) KEEL_NOEXCEPT;

/* The process as the system sees it, and Keel's part of it. Times in milliseconds, sizes in bytes.
 * */
struct kl_process {
    uint64_t elapsed_ms;     /* since the allocator started */
    uint64_t user_ms;        /* processor time in the program */
    uint64_t system_ms;      /* and in the kernel on its behalf */
    uint64_t rss_bytes;      /* resident now */
    uint64_t rss_peak_bytes; /* at most so far */
    uint64_t major_faults;   /* page faults that read a disk */
    uint64_t minor_faults;   /* all others */
    uint64_t
        held_bytes; /* handed out to pages and large blocks, whether used by the program or not */
    uint64_t unused_bytes; /* handed to nobody, but not given back to the system yet */
};

/* Fills *process. A few system calls. */
KEEL_API void kl_process_info(struct kl_process* process) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

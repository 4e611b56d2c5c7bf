/* Keel: a memory allocator. Most of its slow paths do a limited amount of work.
 *
 * There are two ways to use it:
 *
 *   - As a replacement. Link libkeel, or load it with LD_PRELOAD. Then malloc, free, new and delete
 *     call Keel.
 *   - By direct calls of the functions below. libkeel and libkeel_api contain them. libkeel_api
 *     does not replace the program's malloc.
 *
 * With libkeel both ways use the same allocator. So free() accepts a block from kl_malloc, and
 * kl_free accepts a block from malloc().
 *
 * Each library exists in three flavours (build variants): plain, secure and debug. The secure
 * flavour detects more misuse, such as a double free. The debug flavour detects more errors than
 * the other two, but is slow. docs/guide/linking.md describes all libraries.
 *
 * These rules hold for every function, unless its comment states an exception:
 *
 *   - Threads: any thread may call it at any time, even before constructors and after destructors.
 *     A signal handler must not call it. It is not a cancellation point.
 *   - Errors: if there is no memory, or if the size exceeds PTRDIFF_MAX, a function that allocates
 *     returns NULL and sets errno to ENOMEM.
 *   - Blocks: the content of a new block is undefined. The block is aligned to 16 bytes. (A block
 *     for at most 8 bytes is aligned to 8.) Sizes are in bytes.
 *   - Cost: O(1). But a function that zeroes or copies memory is linear in the size.
 *     docs/concepts/latency-contract.md states the limit of work of each function, and the
 *     exceptions.
 *
 * A block is live from its allocation until it is freed. A program must free and resize only live
 * blocks and NULL. Keel detects some violations of this rule. It then prints a message to stderr
 * and ends the process. docs/reference/faults.md lists which errors each flavour detects.
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
#if defined(_WIN32) && defined(KEEL_IS_DLL)
#define KEEL_API __declspec(dllexport)
#elif defined(_WIN32)
#define KEEL_API
#else
#define KEEL_API __attribute__((visibility("default")))
#endif
#define KEEL_API_ALLOCATES(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))
#define KEEL_API_ALIGNED_AT(argument) __attribute__((alloc_align(argument)))
#define KEEL_API_RESIZES(...) __attribute__((warn_unused_result, alloc_size(__VA_ARGS__)))
#define KEEL_API_ROOMY __attribute__((warn_unused_result)) /* all usable bytes may be used */
#else
#define KEEL_API
#define KEEL_API_ALLOCATES(...)
#define KEEL_API_ALIGNED_AT(argument)
#define KEEL_API_RESIZES(...)
#define KEEL_API_ROOMY
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

/* Allocates at least `size` bytes. kl_malloc(0) returns a block, not NULL. Free it as usual. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_malloc(size_t size) KEEL_NOEXCEPT;

/* Frees a block. Another thread may have allocated it. Does nothing if `block` is NULL. Does not
 * change errno. */
KEEL_API void kl_free(void* block) KEEL_NOEXCEPT;

/* Allocates count * size bytes and sets them to zero. Fails with ENOMEM if the product overflows.
 * The cost is linear in the size. Keel skips the zeroing if it knows that the memory is zero. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_calloc(size_t count, size_t size) KEEL_NOEXCEPT;

/* The same as kl_calloc(1, size). */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_zalloc(size_t size) KEEL_NOEXCEPT;

/* Allocates count * size bytes. Fails with ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(1, 2) void* kl_mallocn(size_t count, size_t size) KEEL_NOEXCEPT;

/* Resizes a block. Keeps the content up to the smaller of the old and the new size. Returns the
 * address of the resized block. It may differ from the old address.
 *
 *   - If `block` is NULL: the same as kl_malloc(size).
 *   - If `size` is 0: frees the block and returns NULL, as the GNU C library does.
 *   - On failure: returns NULL, and the old block is unchanged.
 *
 * Keel tries these ways in turn:
 *
 *   - The block stays in place, if the new size is at most its usable size and at least half of it.
 *   - The block shrinks in place, if the new size is above 64 KiB. Some blocks cannot shrink in
 *     place, for example a block of 8 MiB that shrinks to 1 MiB.
 *   - The block grows in place, if it is larger than 64 KiB and the memory behind it is free.
 *   - The system moves the block without copying, if it has 4 MiB or more (Linux 5.7 or later).
 *   - Keel copies the content to a new block. The cost is linear in the smaller size.
 *
 * For a block in an arena (keel/arena.h) or in a heap from kl_heap_new, Keel tries only the first
 * and the last way. */
KEEL_API KEEL_API_RESIZES(2) void* kl_realloc(void* block, size_t size) KEEL_NOEXCEPT;

/* The same as kl_realloc(block, count * size). If the product overflows, it fails with ENOMEM and
 * the block is unchanged. */
KEEL_API KEEL_API_RESIZES(2, 3) void* kl_reallocn(void* block, size_t count,
                                                  size_t size) KEEL_NOEXCEPT;

/* Like kl_realloc. But on failure it frees the old block. */
KEEL_API KEEL_API_RESIZES(2) void* kl_reallocf(void* block, size_t size) KEEL_NOEXCEPT;

/* Returns `block` if its usable size is at least `size`. Otherwise returns NULL. Does not change
 * the block or errno. */
KEEL_API void* kl_expand(void* block, size_t size) KEEL_NOEXCEPT;

/* --- Aligned blocks --------------------------------------------------------------------------- */

/* Allocates `size` bytes at a multiple of `alignment`. The order of the arguments is that of
 * aligned_alloc in C11. `alignment` may be any power of two. For other values the function returns
 * NULL and sets errno to EINVAL.
 *
 * The block is freed and resized like any other block. If kl_realloc moves it, the new block has
 * only the alignment of kl_malloc. */
KEEL_API KEEL_API_ALLOCATES(2)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_alloc(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* Allocates count * size bytes at a multiple of `alignment`, and sets them to zero. Fails like
 * kl_aligned_alloc. Fails with ENOMEM if the product overflows. */
KEEL_API KEEL_API_ALLOCATES(2, 3)
    KEEL_API_ALIGNED_AT(1) void* kl_aligned_calloc(size_t alignment, size_t count,
                                                   size_t size) KEEL_NOEXCEPT;

/* Like kl_realloc. But the resized block is at a multiple of `alignment`. */
KEEL_API KEEL_API_RESIZES(3) void* kl_aligned_realloc(void* block, size_t alignment,
                                                      size_t size) KEEL_NOEXCEPT;

/* Works as POSIX defines posix_memalign. Stores the address of the block in *block and returns 0.
 * Returns EINVAL if `alignment` is not a power of two, or not a multiple of sizeof(void*). Returns
 * ENOMEM if there is no memory. On failure *block is unchanged. Does not change errno. */
KEEL_API int kl_posix_memalign(void** block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Information about blocks ----------------------------------------------------------------- */

/* Returns the number of usable bytes of the block. This is at least the requested size. Returns 0
 * for NULL and for blocks of another allocator. The secure and debug flavours end the process if
 * the address is in memory of Keel and is not a live block.
 *
 * Compilers know which size a call of kl_malloc requested. With _FORTIFY_SOURCE they end the
 * process if it uses more. They do not know the sizes of blocks from kl_umalloc and its variants,
 * which report the usable size. */
KEEL_API size_t kl_usable_size(const void* block) KEEL_NOEXCEPT;

/* Returns the usable size of a block from kl_malloc(size), without allocating one. For sizes above
 * 64 KiB the result is a minimum: the usable size of the block can be larger. */
KEEL_API size_t kl_good_size(size_t size) KEEL_NOEXCEPT;

/* Returns true if the address is in a block of Keel. For blocks of at most 64 KiB, the block may be
 * live or free. Of larger blocks, only live ones count, and of these only the first 64 KiB. */
KEEL_API bool kl_contains(const void* address) KEEL_NOEXCEPT;

/* --- Strings and paths ------------------------------------------------------------------------ */

/* Copy a string into a new block. kl_strndup copies at most `length` characters. If `string` is
 * NULL, they return NULL. The cost is linear in the length. */
KEEL_API char* kl_strdup(const char* string) KEEL_NOEXCEPT;
KEEL_API char* kl_strndup(const char* string, size_t length) KEEL_NOEXCEPT;

/* Works like realpath of POSIX: returns the absolute path without symbolic links. Writes it to
 * `resolved` (PATH_MAX bytes). If `resolved` is NULL, writes it to a new block. On failure returns
 * NULL and sets errno, for example to ENOENT, EACCES or ELOOP. Makes system calls for each
 * component of the path. */
KEEL_API char* kl_realpath(const char* path, char* resolved) KEEL_NOEXCEPT;

/* --- Allocate by type ------------------------------------------------------------------------- */

/* These macros return a pointer to `type`. For example, kl_malloc_of(struct node) returns a struct
 * node*, and kl_mallocn_of(int, 10) returns an int* to ten ints. */
#define kl_malloc_of(type) KEEL_API_AS(type, kl_malloc(sizeof(type)))
#define kl_zalloc_of(type) KEEL_API_AS(type, kl_zalloc(sizeof(type)))
#define kl_mallocn_of(type, count) KEEL_API_AS(type, kl_mallocn((count), sizeof(type)))
#define kl_calloc_of(type, count) KEEL_API_AS(type, kl_calloc((count), sizeof(type)))
#define kl_reallocn_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_reallocn((block), (count), sizeof(type)))
#define kl_recalloc_of(block, type, count)                                                         \
    KEEL_API_AS(type, kl_recalloc((block), (count), sizeof(type)))

/* --- Allocate in a partition ------------------------------------------------------------------ */

/* A partition is a group of blocks with a number from 0 to 3. In the secure flavour, Keel never
 * reuses the address of a freed block for a block of another partition. This holds for blocks
 * smaller than 4 MiB. So a program that accesses a freed block does not access a block of another
 * partition. In the other flavours the partition has no effect.
 *
 * These functions work like kl_malloc, kl_calloc and kl_aligned_alloc, which allocate in partition
 * 0. Every function that frees or resizes blocks accepts blocks of all partitions. A resized block
 * stays in its partition. If the number of a partition is above 3, its value modulo 4 is used. All
 * blocks in an arena (keel/arena.h) are in partition 0, because an arena reuses all its addresses.
 *
 * Clang 22 or later can choose the partition by the type of the block: compile the program with
 * -fsanitize=alloc-token. Its sources need no change. The compiler computes a number from each
 * type. This number is the token of the type. The compiler replaces calls of malloc by calls of
 * __alloc_token_malloc, and passes the token. It does the same for calloc, realloc, new and others.
 * libkeel defines these functions. They use the partition that kl_partition_of_token returns for
 * the token. A program can also call kl_partition_of_token itself, with the result of
 * __builtin_infer_alloc_token. */
enum kl_partition {
    kl_partition_untyped = 0,      /* malloc and new; types that the compiler does not know */
    kl_partition_data = 1,         /* types without pointers */
    kl_partition_pointers = 2,     /* one half of the types with pointers */
    kl_partition_more_pointers = 3 /* the other half of the types with pointers */
};
KEEL_API KEEL_API_ALLOCATES(2) void* kl_partition_malloc(unsigned partition,
                                                         size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2, 3) void* kl_partition_calloc(unsigned partition, size_t count,
                                                            size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(3) void* kl_partition_aligned_alloc(unsigned partition,
                                                                size_t alignment,
                                                                size_t size) KEEL_NOEXCEPT;

/* Returns the partition for a token of the compiler:
 *
 *   - token 0, for all unknown types: 0
 *   - tokens of 2^32 and more: 1 for types without pointers, 2 or 3 for types with pointers
 *   - other tokens below 2^32: the token modulo 4
 *
 * By default, the compiler gives tokens of 2^32 and more. The option -falloc-token-max limits their
 * number, and then all are below 2^32. The compiler gives the lower half of them to types without
 * pointers. With a limit of 2, these types get partition 0, and types with pointers partition 1.
 * With a limit of 4, these types get 0 or 1, and types with pointers 2 or 3. With a higher limit,
 * both kinds of types can get the same partition. */
KEEL_API unsigned kl_partition_of_token(size_t token) KEEL_NOEXCEPT;

/* Secure flavour: returns the partition of a live block. Other flavours: returns 0. */
KEEL_API unsigned kl_partition_of(const void* block) KEEL_NOEXCEPT;

/* --- Free with a known size ------------------------------------------------------------------- */

/* These work like free_sized and free_aligned_sized of C23. The caller passes the size that it
 * requested for the block, or the size and the alignment. The secure and debug flavours verify
 * these values. The plain flavour ignores them. */
KEEL_API void kl_free_sized(void* block, size_t size) KEEL_NOEXCEPT;
KEEL_API void kl_free_aligned_sized(void* block, size_t alignment, size_t size) KEEL_NOEXCEPT;

/* --- Return the usable size as well ----------------------------------------------------------- */

/* These functions work like those without the `u` in their names. They also report usable sizes,
 * which saves calls of kl_usable_size:
 *
 *   - *usable receives the usable size of the block that the function returns, or 0 for NULL.
 *   - *usable_before receives the usable size of the old block.
 *   - kl_ufree stores the usable size of the freed block in *usable.
 *
 * Each of these pointers may be NULL. */
KEEL_API KEEL_API_ROOMY void* kl_umalloc(size_t size, size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ROOMY void* kl_ucalloc(size_t count, size_t size, size_t* usable) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ROOMY void* kl_urealloc(void* block, size_t size, size_t* usable_before,
                                          size_t* usable) KEEL_NOEXCEPT;
KEEL_API void kl_ufree(void* block, size_t* usable) KEEL_NOEXCEPT;

/* --- Resize and zero the new bytes ------------------------------------------------------------ */

/* These work like kl_realloc and its variants. They also set every byte beyond the old size to
 * zero. For this, two conditions must hold:
 *
 *   - The block was allocated by a function of this section, or by a function with calloc or zalloc
 *     in its name, such as kl_calloc or kl_heap_zalloc.
 *   - Only functions of this section have resized it.
 *
 * Otherwise the bytes between the old size and the old usable size can have any value. The cost is
 * linear in the larger size. */
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

/* Allocate a block so that block + offset is a multiple of `alignment`. For example, a program can
 * align the data behind a header of `offset` bytes. The blocks are freed and resized like other
 * blocks.
 *
 *   - kl_aligned_alloc_at allocates `size` bytes.
 *   - kl_aligned_calloc_at allocates count * size bytes and sets them to zero.
 *   - kl_aligned_realloc_at resizes a block. The result is aligned in the same way.
 *
 * If `offset` is a multiple of `alignment`, it has no effect. For any other offset, the call takes
 * a lock, and the block needs up to alignment - 1 additional bytes. The call then fails with EINVAL
 * if `alignment` is above 64 KiB. */
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

/* Like kl_aligned_alloc. But it accepts any alignment, and rounds it up to a power of two. */
KEEL_API KEEL_API_ALLOCATES(2) void* kl_memalign(size_t alignment, size_t size) KEEL_NOEXCEPT;

/* Allocate `size` bytes at a multiple of the system's page size. kl_pvalloc also rounds `size` up
 * to a multiple of it. */
KEEL_API KEEL_API_ALLOCATES(1) void* kl_valloc(size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(1) void* kl_pvalloc(size_t size) KEEL_NOEXCEPT;

/* The same as kl_usable_size. */
KEEL_API size_t kl_malloc_usable_size(const void* block) KEEL_NOEXCEPT;

/* --- Check the heap --------------------------------------------------------------------------- */

/* Only for the debug flavour. In other flavours it does nothing and returns 0.
 *
 * Checks whether the program has written beyond either end of a block, or to a freed block. (The
 * debug flavour keeps freed blocks for a while before it reuses them.) At the first error it prints
 * a message and ends the process (docs/reference/faults.md). Returns the number of checked blocks.
 * The cost is linear in this number and in the size of the kept blocks. */
KEEL_API size_t kl_check_all(void) KEEL_NOEXCEPT;

/* --- Background thread and maintenance -------------------------------------------------------- */

/* Starts the keeper, the background thread of Keel. The keeper gets memory from the system before
 * the program needs it, and returns memory that the program no longer needs. Without a keeper, the
 * program's threads do this work in their calls. Returns true if the keeper is running.
 *
 * A program need not call this function: Keel starts the keeper itself. The environment variable
 * KEEL_KEEPER determines when:
 *
 *   - auto (default): when Keel uses 2 MiB more than at the start of the process, and two threads
 *     have allocated, of which one has refilled its lists of free blocks 32 times. (Each block size
 *     has its list. For small blocks, 32 refills usually take several hundred allocations or more.)
 *   - on: when Keel uses 2 MiB more than at the start of the process.
 *   - off: never. Then this function returns false.
 *
 * A fork does not copy the keeper. The same rules decide when the child gets its own keeper. In the
 * child, the 2 MiB are measured from the fork on. A child of clone or _Fork has none.
 *
 * The keeper is an ordinary thread with all signals blocked except SIGSYS. It is not a realtime
 * thread, and runs where the process's first thread may run. It ends when that thread ends before
 * others do (pthread_exit); then no other keeper starts, and this function returns false. Do not
 * call this function from a constructor. If the program changes its user or capabilities, or calls
 * unshare(CLONE_NEWUSER) or setns, call this function only after that. */
KEEL_API bool kl_keeper_start(void) KEEL_NOEXCEPT;

/* Prepares at least `bytes` bytes of warm memory, and keeps this amount available. Warm memory is
 * free memory that the system has already provided, so using it causes no page fault. Keel uses it
 * for new blocks of up to 64 KiB. Call this function at the start of the program, or when a game
 * loads a level.
 *
 * Returns the number of prepared bytes. It is less than `bytes` if the system has no more memory.
 * kl_warm(0) ends the effect of earlier calls. The cost is linear in `bytes`. */
KEEL_API size_t kl_warm(size_t bytes) KEEL_NOEXCEPT;

/* A thread calls this when it has nothing else to do, for example between two frames. Keel then
 * does work that later calls of malloc and free would have to do:
 *
 *   - It takes back the blocks of this thread's heap that other threads have freed.
 *   - It passes on blocks of other heaps that this thread has freed, each to the heap from which it
 *     comes.
 *   - If no keeper runs, it returns unused memory to the system.
 *
 * The call takes at most about 0.1 ms. */
KEEL_API void kl_thread_idle(void) KEEL_NOEXCEPT;

/* Makes the calling thread a realtime thread. This is for threads with deadlines, such as audio or
 * render threads. The thread gets its own reserve of warm memory (see kl_warm) of up to
 * `spare_bytes` bytes. Keel rounds `spare_bytes` up to a multiple of 64 KiB, and limits it to 2
 * MiB. The value 0 makes the thread an ordinary thread again.
 *
 * The malloc and free of a realtime thread return no memory to the system. They do no work for
 * other threads' heaps and do not wake the keeper. The keeper refills the reserve, so start it with
 * kl_keeper_start. Without a keeper, only kl_thread_idle refills the reserve.
 *
 * Returns false if there is no memory, or if the thread is exiting and no longer has a heap. */
KEEL_API bool kl_thread_set_realtime(size_t spare_bytes) KEEL_NOEXCEPT;

/* Returns unused memory to the system.
 *
 *   - If `force` is true: returns all unused memory, except in the heaps of other running threads
 *     and in heaps from kl_heap_new. The cost is linear in the returned memory: 30 to 100 ms for
 *     each GiB.
 *   - If `force` is false: does the same as kl_thread_idle.
 *
 * In both cases it also calls the function that kl_register_deferred_free (keel/runtime.h) has set.
 */
KEEL_API void kl_collect(bool force) KEEL_NOEXCEPT;

/* --- Statistics ------------------------------------------------------------------------------- */

/* A function that receives a report, one piece in each call. `text` ends with a zero byte. The
 * function must not allocate from Keel. */
typedef void kl_output(const char* text, void* argument);

/* Prints a report with `output`, or to stderr if `output` is NULL. The report contains counts of
 * events. For each slow path it also contains a histogram of times in ns, with one bucket for each
 * power of two. If the environment variable KEEL_STATS is 1, Keel prints the same report when the
 * process ends.
 *
 * The function allocates nothing. The cost is linear in the number of heaps, size classes and
 * arenas. Other threads may change their counts while the function runs. So the counts may belong
 * to slightly different times. */
KEEL_API void kl_stats_print(kl_output* output, void* argument) KEEL_NOEXCEPT;

/* Writes the same report to `buffer` as a JSON object. Like snprintf, it writes at most `size`
 * bytes, including the zero byte at the end. It returns the length of the whole text, without this
 * zero byte. kl_stats_json(NULL, 0) returns the length of the text at this moment. */
KEEL_API size_t kl_stats_json(char* buffer, size_t size) KEEL_NOEXCEPT;

/* The times, memory and page faults of the process. Times are in milliseconds, sizes in bytes. The
 * last two members are about Keel, the others about the whole process. A page of Keel is 64 KiB or
 * 256 KiB of memory for blocks of one size.
 *
 * Keel keeps mappings of freed large blocks for later blocks. rss_bytes contains them, held_bytes
 * and unused_bytes do not. Keel returns such a mapping to the system if no block uses it for one
 * purge delay (KEEL_PURGE_DELAY_MS). */
struct kl_process {
    uint64_t elapsed_ms;     /* since the allocator started */
    uint64_t user_ms;        /* processor time in the program */
    uint64_t system_ms;      /* processor time in the kernel for the program */
    uint64_t rss_bytes;      /* resident now */
    uint64_t rss_peak_bytes; /* highest resident size so far */
    uint64_t major_faults;   /* page faults that read from a disk */
    uint64_t minor_faults;   /* all other page faults */
    uint64_t held_bytes;     /* size of Keel's pages (used and free blocks) and of large blocks */
    uint64_t unused_bytes;   /* resident and free: in no page and in no large block */
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

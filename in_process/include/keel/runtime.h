/* What a program may tell Keel, and be told: options, limits, handlers, the machine.
 *
 * All functions may be called from any thread at any time, and cost O(1) unless said otherwise.
 * Handlers are called on the thread that needs them; while one runs, its thread calls none. A
 * handler and its argument are set for the process, NULL takes it away. Setting a handler while
 * another thread is about to call the old one may still call that, with the argument of either:
 * set them before there are threads, or make both good for both.
 */
#ifndef KEEL_RUNTIME_H
#define KEEL_RUNTIME_H

#include "keel/keel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Options -------------------------------------------------------------------------------------
 *
 * A number each: by call, or before the program starts in the environment as KEEL_ and the name in
 * capitals (KEEL_SHOW_STATS=1), or under its mimalloc name, MIMALLOC_SHOW_STATS=1. A call goes
 * before KEEL_, that before MIMALLOC_. Values: a number; with K, M, G or T for 2^10 .. 2^40; on,
 * yes, true (1); off, no, false (0); what is none is told on stderr. Programs that are set-user-id
 * read no environment. The first 17 are those of mimalloc 1.6.3, in its order. "No effect":
 * accepted and kept, because Keel has nothing that it could switch. */
typedef enum kl_option {
    kl_option_show_errors, /* 1: say on the output what fails (no memory, frees of foreign blocks). Default 0 */
    kl_option_show_stats, /* 1: the statistics at the end of the process. Also KEEL_STATS. Default 0 */
    kl_option_verbose, /* 1: as show_errors, and at start version and options in force. Default 0 */
    kl_option_eager_commit, /* no effect: the system gives memory at the first touch, or the keeper before it */
    kl_option_eager_region_commit, /* no effect, likewise */
    kl_option_reset_decommits,     /* no effect: what is given back is given back */
    /* 1: kl_reserve_os_memory always tries kl_memory_large_pages. Else no effect: the keeper uses
     * pages of 2 MiB where they pay. Default 0 */
    kl_option_large_os_pages,
    /* so many pages of 1 GiB are reserved at start, as by kl_reserve_huge_os_pages_interleave, in at
     * most half a second each; fewer are an error (show_errors). Environment only. Default 0 */
    kl_option_reserve_huge_os_pages,
    kl_option_segment_cache, /* no effect: unused memory is kept by time, see reset_delay */
    kl_option_page_reset,    /* no effect */
    kl_option_abandoned_page_reset, /* no effect: heaps of ended threads are collected when they hold anything */
    kl_option_segment_reset,      /* no effect */
    kl_option_eager_commit_delay, /* no effect */
    kl_option_reset_delay, /* milliseconds that memory is unused before it is given back. KEEL_PURGE_DELAY_MS. 500 */
    /* nodes of memory that arenas are told apart by; 0: as many as the machine has. Other memory is
     * where it is first touched. Default 0 */
    kl_option_use_numa_nodes,
    kl_option_os_tag,     /* no effect: for macOS */
    kl_option_max_errors, /* so many errors are said at most; below 0: all. Default 16 */
    kl_option_keeper, /* the keeper thread: 0 off, 1 on, 2 auto (see kl_keeper_start). Before it starts. Default 2 */
    kl_option_foreign_free, /* 1 or "abort": a free of what is not Keel's ends the process. Default 0: it is ignored */
    kl_option_limit, /* bytes that may be held, see kl_limit; 0: no limit. Default 0 */
    kl_option_count  /* how many there are */
} kl_option_t;

/* The value in force. 0 for a number that is no option. */
KEEL_API long kl_option_get(kl_option_t option) KEEL_NOEXCEPT;

/* Sets it. kl_option_set_default only where neither environment nor call has set it. Without
 * effect for a number that is no option. */
KEEL_API void kl_option_set(kl_option_t option, long value) KEEL_NOEXCEPT;
KEEL_API void kl_option_set_default(kl_option_t option, long value) KEEL_NOEXCEPT;

/* The same for options that are on (not 0) or off. */
KEEL_API bool kl_option_is_enabled(kl_option_t option) KEEL_NOEXCEPT;
KEEL_API void kl_option_enable(kl_option_t option) KEEL_NOEXCEPT;
KEEL_API void kl_option_disable(kl_option_t option) KEEL_NOEXCEPT;
KEEL_API void kl_option_set_enabled(kl_option_t option, bool enable) KEEL_NOEXCEPT;
KEEL_API void kl_option_set_enabled_default(kl_option_t option, bool enable) KEEL_NOEXCEPT;

/* "show_errors" and so on; NULL for a number that is no option. */
KEEL_API const char* kl_option_name(kl_option_t option) KEEL_NOEXCEPT;

/* --- Limits ------------------------------------------------------------------------------------ */

/* Keel holds at most so many bytes for pages and large blocks from now on (0: no limit); the limit
 * before. What would go beyond fails with ENOMEM, after unused memory has been collected. Blocks
 * in use stay. Kept to the page of 64 to 512 KiB; threads that ask at the same moment may go
 * beyond it by one page or block each. */
KEEL_API size_t kl_limit(size_t bytes) KEEL_NOEXCEPT;

/* What the process may use of the machine. */
struct kl_machine {
    uint32_t processors; /* that it may run on */
    uint64_t
        processors_milli; /* thousandths of a processor that its control groups grant; 0: no limit */
    uint64_t memory_bytes; /* of the machine */
    uint64_t
        memory_limit_bytes; /* the smallest limit of its control groups and of RLIMIT_AS; 0: none */
};

/* Reads it anew: control groups version 2 and 1. Some dozens of system calls. Keel sets no limit
 * from it by itself. */
KEEL_API void kl_machine_info(struct kl_machine* machine) KEEL_NOEXCEPT;

/* --- Beginnings and ends ------------------------------------------------------------------------- */

/* Nobody needs to call these; they are for who wants it done at a known time. kl_process_init reads the
 * environment, as the first allocation does. kl_thread_init gives the calling thread its heap, as
 * its first allocation does (false: no memory). kl_thread_done lets the heap go, as the end of the
 * thread does; the thread may still allocate, which gives it one again. */
KEEL_API void kl_process_init(void) KEEL_NOEXCEPT;
KEEL_API bool kl_thread_init(void) KEEL_NOEXCEPT;
KEEL_API void kl_thread_done(void) KEEL_NOEXCEPT;

/* --- Handlers ---------------------------------------------------------------------------------- */

/* All text of Keel's goes to `output` instead of stderr. `output` must not allocate from Keel. */
KEEL_API void kl_register_output(kl_output* output, void* argument) KEEL_NOEXCEPT;

/* Is told of errors: ENOMEM no memory, EOVERFLOW a size beyond all sense, EINVAL a foreign block
 * or an address inside a block was freed, EAGAIN a free of what is not allocated, EFAULT corrupt
 * data. After the last two, and a free inside a block, the process ends. */
typedef void kl_error_handler(int error, void* argument);
KEEL_API void kl_register_error(kl_error_handler* handler, void* argument) KEEL_NOEXCEPT;

/* Is called now and then by allocations that take the slow path, and by kl_collect: frees what the
 * program has put off (a list of objects to release, a reference count to settle) in small steps,
 * all of it with `force`. `heartbeat` counts the calls of this thread. May allocate and free. */
typedef void kl_deferred_free(bool force, unsigned long long heartbeat, void* argument);
KEEL_API void kl_register_deferred_free(kl_deferred_free* handler, void* argument) KEEL_NOEXCEPT;

/* Is called when there is no memory for a block of `size` bytes. True: it has freed some, try
 * again. False: the call fails. May free, and may leave by longjmp or an exception only if it
 * never comes back to Keel on this thread. */
typedef bool kl_out_of_memory(size_t size, void* argument);
KEEL_API void kl_register_out_of_memory(kl_out_of_memory* handler, void* argument) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

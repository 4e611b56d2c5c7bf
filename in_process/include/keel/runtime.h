/* Runtime control: options, limits, handlers, and the machine resources available to the process.
 *
 * Any thread may call these functions at any time. Each costs O(1), unless its comment states
 * another cost.
 */
#ifndef KEEL_RUNTIME_H
#define KEEL_RUNTIME_H

#include "keel/keel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Options ---------------------------------------------------------------------------------- */

/* Each option is a number. The program sets it by a call, or an environment variable sets it when
 * the program starts. The name of the variable is KEEL_ and the option's name in capitals
 * (KEEL_SHOW_STATS=1), or the name that mimalloc uses (MIMALLOC_SHOW_STATS=1). A call takes
 * precedence over both variables, and the KEEL_ variable over the MIMALLOC_ variable.
 *
 * The value of a variable is a number, a number with K, M, G or T for 2^10 to 2^40, or a word: on,
 * yes or true (1), off, no or false (0). For any other value Keel prints a warning to stderr and
 * keeps the default. Set-user-id programs do not read the environment.
 *
 * The numbers 0 to 16 are those of mimalloc 1.6.3. The numbers that are missing here belong to
 * options of mimalloc that have no effect in Keel. Keel stores their values. Only
 * keel/mimalloc-options.h has names for them. */
typedef enum kl_option {
    /* 1: print errors, such as out of memory and frees of foreign blocks. Default 0 */
    kl_option_show_errors = 0,
    /* 1: print the statistics when the process ends. Also KEEL_STATS. Default 0 */
    kl_option_show_stats = 1,
    /* 1: like show_errors, and print the version and the options at start. Default 0 */
    kl_option_verbose = 2,
    /* 1: kl_reserve_os_memory always tries kl_memory_large_pages, and memory that is provided ahead
     * comes in pages of 2 MiB even while such a page costs more processor time than 512 small
     * ones. Default 0 */
    kl_option_large_os_pages = 6,
    /* The number of pages of 1 GiB to reserve at start, as by kl_reserve_huge_os_pages_interleave,
     * with a time limit of 0.5 s for each page. Fewer pages are an error (show_errors). Only the
     * environment can set this option. Default 0 */
    kl_option_reserve_huge_os_pages = 7,
    /* Milliseconds after which unused memory is returned to the system. Also KEEL_PURGE_DELAY_MS.
     * Default 500 */
    kl_option_reset_delay = 13,
    /* The number of NUMA nodes that arenas distinguish; 0: as many as the machine has. Memory
     * outside arenas is on the node that first touches it. Default 0 */
    kl_option_use_numa_nodes = 14,
    /* The maximum number of errors that are reported; negative: no maximum. Default 16 */
    kl_option_max_errors = 16,

    /* The following options exist in Keel only. */

    /* When the keeper thread starts: 0 off, 1 on, 2 auto (see kl_keeper_start). Set it before the
     * keeper starts. Default 2 */
    kl_option_keeper = 17,
    /* 1 or "abort": a free of a foreign block ends the process. 0: it is ignored. Default 0; in
     * the secure flavour the default is 1 */
    kl_option_foreign_free = 18,
    /* The maximum number of bytes that Keel holds, see kl_limit; 0: no limit. Default 0 */
    kl_option_limit = 19,
    /* 1: the secure flavour fills freed blocks of up to 4 MiB with zeros, and ends the process if
     * it later finds another byte in them. Only the environment can set this option. Default 0 */
    kl_option_zero_on_free = 20,
    /* Guarded sampling, only in the plain flavour: on average one allocation in this many is placed
     * beside memory that cannot be accessed. Then an access beyond the end of the block, before its
     * start, or after its free is detected (docs/guide/debugging.md). At most 2^24; 0: none. Only
     * the environment can set this option and the next two. Default 0 */
    kl_option_guard_rate = 21,
    /* The seed of the random choice of these allocations. With a seed other than 0, a program of
     * one thread makes the same choice in each run. Default 0 */
    kl_option_guard_seed = 22,
    /* 1: guarded sampling installs a handler of SIGSEGV, which reports such accesses. The handler
     * then calls the program's previous handler; without one, the process ends. Default 1 */
    kl_option_guard_handler = 23,
    /* What the secure and debug flavours do at a sized free (free_sized, sized operator delete)
     * with a size that is not the block's. 1 or "abort": the process ends. 2 or "report": they
     * print the message, at most max_errors times, and free the block. 0: they do not verify the
     * size. Default 1; 0 in the plain flavour, which never verifies it */
    kl_option_sized_free = 24,
    /* One more than the largest option */
    kl_option_count = 25
} kl_option_t;

/* Returns the current value, or 0 if there is no such option. */
KEEL_API long kl_option_get(kl_option_t option) KEEL_NOEXCEPT;

/* Set the value of an option. kl_option_set_default sets it only if neither the environment nor a
 * call has set it before. If there is no such option, they do nothing. */
KEEL_API void kl_option_set(kl_option_t option, long value) KEEL_NOEXCEPT;
KEEL_API void kl_option_set_default(kl_option_t option, long value) KEEL_NOEXCEPT;

/* The same for options that are on or off. On is stored as 1 and off as 0. When an option is read,
 * any value but 0 is on. */
KEEL_API bool kl_option_is_enabled(kl_option_t option) KEEL_NOEXCEPT;
KEEL_API void kl_option_enable(kl_option_t option) KEEL_NOEXCEPT;
KEEL_API void kl_option_disable(kl_option_t option) KEEL_NOEXCEPT;
KEEL_API void kl_option_set_enabled(kl_option_t option, bool enable) KEEL_NOEXCEPT;
KEEL_API void kl_option_set_enabled_default(kl_option_t option, bool enable) KEEL_NOEXCEPT;

/* Returns the name, such as "show_errors", or NULL if there is no such option. */
KEEL_API const char* kl_option_name(kl_option_t option) KEEL_NOEXCEPT;

/* --- Limits ----------------------------------------------------------------------------------- */

/* Limits the memory that Keel holds in pages and large blocks to `bytes` (0: no limit) and returns
 * the previous limit. An allocation that would exceed the limit first does the work of
 * kl_collect(true). If this does not free enough, the allocation fails with ENOMEM. Live blocks are
 * not affected. The limit is exact to within one page (64 to 256 KiB). Threads that allocate at the
 * same moment may each exceed it by one page or block. */
KEEL_API size_t kl_limit(size_t bytes) KEEL_NOEXCEPT;

/* The resources of the machine that the process may use. */
struct kl_machine {
    uint32_t processors; /* on which the process may run */
    /* processor time that its control groups grant, in thousandths of a processor; 0: no limit */
    uint64_t processors_milli;
    uint64_t memory_bytes; /* of the machine */
    /* the smallest limit of its control groups and of RLIMIT_AS; 0: no limit */
    uint64_t memory_limit_bytes;
};

/* Fills *machine with the current values. It reads control groups of version 2 and of version 1.
 * Makes a few dozen system calls. Keel does not set a limit from these values. */
KEEL_API void kl_machine_info(struct kl_machine* machine) KEEL_NOEXCEPT;

/* --- Start and end ---------------------------------------------------------------------------- */

/* These calls are optional. Without them Keel does the same work when it is first needed. With them
 * the program chooses the time. kl_process_init reads the environment, as the first allocation
 * does. kl_thread_init creates the calling thread's heap, as its first allocation does, and returns
 * false if there is no memory. kl_thread_done releases the heap, as the end of the thread does. If
 * the thread allocates afterwards, Keel creates a heap for it again. */
KEEL_API void kl_process_init(void) KEEL_NOEXCEPT;
KEEL_API bool kl_thread_init(void) KEEL_NOEXCEPT;
KEEL_API void kl_thread_done(void) KEEL_NOEXCEPT;

/* --- Handlers --------------------------------------------------------------------------------- */

/* A handler and its argument apply to the whole process. NULL removes the handler. A handler runs
 * on the thread on which the event occurs. While a thread runs a handler, it calls no other
 * handler. While a handler is replaced, another thread may still call the old handler, with the old
 * or the new argument. Therefore set handlers before other threads start, or make both handlers
 * accept both arguments. */

/* Sends all text that Keel prints to `output` instead of stderr. `output` must not allocate from
 * Keel. */
KEEL_API void kl_register_output(kl_output* output, void* argument) KEEL_NOEXCEPT;

/* Keel calls this handler for each error:
 *
 *   - ENOMEM: there is no memory.
 *   - EOVERFLOW: an impossible size was requested.
 *   - EINVAL: a foreign block, or an address inside a block, was freed.
 *   - EAGAIN: a block that is not allocated was freed.
 *   - EFAULT: Keel's own data is corrupt.
 *
 * After EAGAIN, EFAULT and a free inside a block, the process ends. */
typedef void kl_error_handler(int error, void* argument);
KEEL_API void kl_register_error(kl_error_handler* handler, void* argument) KEEL_NOEXCEPT;

/* Allocations on the slow path call this handler from time to time, and kl_collect calls it. The
 * handler frees objects whose release the program has deferred: a few of them, or all if `force` is
 * true. `heartbeat` counts the calls on this thread. The handler may allocate and free. */
typedef void kl_deferred_free(bool force, unsigned long long heartbeat, void* argument);
KEEL_API void kl_register_deferred_free(kl_deferred_free* handler, void* argument) KEEL_NOEXCEPT;

/* Keel calls this handler when there is no memory for a block of `size` bytes. A handler that has
 * freed memory returns true, and Keel tries the allocation again. If it returns false, the
 * allocation fails. The handler may free. It may leave by longjmp or an exception only if this
 * thread never calls Keel again. */
typedef bool kl_out_of_memory(size_t size, void* argument);
KEEL_API void kl_register_out_of_memory(kl_out_of_memory* handler, void* argument) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

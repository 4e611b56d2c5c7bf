/* Arenas: memory that the program gives to Keel or reserves in advance, including huge pages.
 *
 * Blocks in an arena are like any other: kl_free and free accept them on every thread. As long as
 * the arenas that are not exclusive have room, all allocations use them; otherwise they use memory
 * from the system. Only heaps that kl_heap_new_in_arena (keel/heap.h) has bound to an exclusive
 * arena allocate from it. Keel never returns an arena's memory to the system while the arena
 * exists. At most 64 arenas exist at a time.
 *
 * All functions may be called from any thread. What keel/keel.h says about errors applies here too.
 */
#ifndef KEEL_ARENA_H
#define KEEL_ARENA_H

#include "keel/keel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_arena kl_arena_t;

/* Flags. For kl_manage_os_memory they describe the memory; for kl_reserve_os_memory they request
 * it. */
enum kl_memory {
    kl_memory_zero = 1,      /* every byte is zero: calloc need not clear it */
    kl_memory_populated = 2, /* all of it is present: using it causes no page fault */
    kl_memory_exclusive = 4, /* only for heaps that are bound to it */
    /* kl_reserve_os_memory: use pages of 2 MiB that the machine's administrator has set aside */
    kl_memory_large_pages = 8,
};

#define KL_ANY_NUMA_NODE (-1)

/* Gives Keel the `bytes` bytes of memory that begin at `start`. The memory must be readable and
 * writable, and the program must not use it until kl_arena_release. Keel uses the aligned units of
 * 64 KiB inside it. Threads on `numa_node` are served from it before others; pass KL_ANY_NUMA_NODE
 * if the node does not matter. Linear in `bytes`.
 *
 * Returns NULL and sets errno to EINVAL (it contains no aligned 64 KiB, or it already belongs to
 * Keel), ENOMEM (no memory for its metadata) or ENOSPC (64 arenas exist). */
KEEL_API kl_arena_t* kl_manage_os_memory(void* start, size_t bytes, unsigned flags,
                                         int numa_node) KEEL_NOEXCEPT;

/* Reserves `bytes` bytes, rounded up to 2 MiB, from the system, as an arena of zeroed memory.
 *
 *   - kl_memory_populated: all of it is populated now, or the call fails. Linear in `bytes`: about
 *     0.3 s per GiB.
 *   - kl_memory_large_pages: it uses large pages, which are populated at once, if the machine has
 *     enough of them set aside; otherwise ordinary pages.
 *
 * Returns NULL and sets errno to ENOMEM if the system refuses; other errors as for
 * kl_manage_os_memory. */
KEEL_API kl_arena_t* kl_reserve_os_memory(size_t bytes, unsigned flags) KEEL_NOEXCEPT;

/* Reserve up to `pages` pages of 1 GiB for all threads. The administrator must have set them aside
 * (/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages). The first function takes them from
 * `numa_node`; the second spreads them over the first `numa_nodes` nodes (0: all nodes). They stop
 * after `timeout_ms` milliseconds (0: no limit); the time is checked after each page, which takes
 * about 0.3 s.
 *
 * Return 0 if all pages were reserved; ETIMEDOUT or ENOMEM if fewer were, which then stay reserved;
 * EINVAL if there is no such node. errno is preserved. */
KEEL_API int kl_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                         size_t timeout_ms) KEEL_NOEXCEPT;
KEEL_API int kl_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                 size_t timeout_ms) KEEL_NOEXCEPT;

/* Returns the number of NUMA nodes that Keel distinguishes, at least 1: kl_option_use_numa_nodes if
 * that is set, otherwise the nodes of the machine. */
KEEL_API size_t kl_numa_nodes(void) KEEL_NOEXCEPT;

/* The state of an arena. Sizes are in bytes. */
struct kl_arena_state {
    void* start;        /* where the usable memory begins */
    size_t bytes;       /* its length */
    size_t used_bytes;  /* in pages and large blocks */
    size_t bound_heaps; /* heaps that are bound to the arena */
    int numa_node;      /* or KL_ANY_NUMA_NODE */
    bool exclusive;
};

/* Fills *info. O(1). */
KEEL_API void kl_arena_info(kl_arena_t* arena, struct kl_arena_state* info) KEEL_NOEXCEPT;

/* Ends the arena. Its memory belongs to the program again, or goes back to the system if
 * kl_reserve_os_memory reserved it. Returns false and sets errno to EBUSY if some of the memory is
 * in use or a heap is bound to the arena; nothing has then changed. Threads keep empty pages of
 * arenas that are not exclusive; kl_collect(true) makes the calling thread release its own. */
KEEL_API bool kl_arena_release(kl_arena_t* arena) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

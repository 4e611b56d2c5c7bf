/* Arenas: memory that the program gives to Keel or reserves in advance, including huge pages.
 *
 * Any thread may free a block in an arena with kl_free or free, like any other block. An exclusive
 * arena is used only by the heaps that kl_heap_new_in_arena (keel/heap.h) has bound to it. All
 * other arenas are used by all allocations. When these arenas are full, allocations use memory from
 * the system, as they do without arenas. Keel never returns an arena's memory to the
 * system while the arena exists. At most 64 arenas exist at a time.
 *
 * Any thread may call these functions. The rules of keel/keel.h for errors also apply here.
 */
#ifndef KEEL_ARENA_H
#define KEEL_ARENA_H

#include "keel/keel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_arena kl_arena_t;

/* Flags. In kl_manage_os_memory they describe the memory that the program provides. In
 * kl_reserve_os_memory they request memory with these properties. */
enum kl_memory {
    kl_memory_zero = 1,      /* every byte is zero: calloc need not clear it */
    kl_memory_populated = 2, /* all of it is present: using it causes no page fault */
    kl_memory_exclusive = 4, /* only heaps that are bound to the arena use it */
    /* kl_reserve_os_memory: use pages of 2 MiB that the machine's administrator has set aside */
    kl_memory_large_pages = 8,
    /* kl_manage_os_memory: the memory may be inaccessible. Keel makes it readable and writable */
    kl_memory_closed = 16,
};

#define KL_ANY_NUMA_NODE (-1)

/* Gives Keel the `bytes` bytes of memory that begin at `start`. The memory must be readable and
 * writable (without kl_memory_closed), and the program must not use it until kl_arena_release. Keel
 * uses only the units of 64 KiB in it that are aligned to 64 KiB. Threads that run on `numa_node`
 * allocate from this arena before they use others. Pass KL_ANY_NUMA_NODE if the node does not
 * matter. The cost is linear in `bytes`.
 *
 * On failure returns NULL and sets errno:
 *
 *   - EINVAL: the memory contains no aligned unit of 64 KiB, or already belongs to Keel.
 *   - ENOMEM: there is no memory for the arena's metadata, or closed memory cannot be opened.
 *   - ENOSPC: 64 arenas exist. */
KEEL_API kl_arena_t* kl_manage_os_memory(void* start, size_t bytes, unsigned flags,
                                         int numa_node) KEEL_NOEXCEPT;

/* Reserves `bytes` bytes, rounded up to 2 MiB, from the system, as an arena of zeroed memory.
 *
 *   - kl_memory_populated: the call populates all of the memory, or fails. The cost is linear in
 *     `bytes`: about 0.3 s per GiB.
 *   - kl_memory_large_pages: the arena uses large pages if the administrator has set aside enough
 *     of them, and ordinary pages otherwise. Large pages are populated at once.
 *
 * If the system provides no memory, returns NULL and sets errno to ENOMEM. The other errors are
 * those of kl_manage_os_memory. */
KEEL_API kl_arena_t* kl_reserve_os_memory(size_t bytes, unsigned flags) KEEL_NOEXCEPT;

/* Reserve up to `pages` pages of 1 GiB for all threads. The administrator must have set them aside
 * (/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages). kl_reserve_huge_os_pages_at takes
 * them from `numa_node`. kl_reserve_huge_os_pages_interleave spreads them over the first
 * `numa_nodes` nodes (0: all nodes). They stop after `timeout_ms` milliseconds (0: no limit). They
 * check the time after each page; a page takes about 0.3 s.
 *
 * Return 0 if all pages were reserved. Return ETIMEDOUT or ENOMEM if fewer pages were reserved;
 * these pages stay reserved. Return EINVAL if the node does not exist. errno is preserved. */
KEEL_API int kl_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                         size_t timeout_ms) KEEL_NOEXCEPT;
KEEL_API int kl_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                 size_t timeout_ms) KEEL_NOEXCEPT;

/* Returns the number of NUMA nodes that Keel distinguishes, at least 1: kl_option_use_numa_nodes if
 * that option is set, otherwise the number of nodes of the machine. */
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

/* Ends the arena. If kl_reserve_os_memory reserved the memory, it is returned to the system.
 * Otherwise it belongs to the program again. The function fails if some of the memory is in use or
 * a heap is bound to the arena. It then changes nothing, returns false and sets errno to EBUSY.
 * Threads keep empty pages of arenas that are not exclusive. kl_collect(true) releases those of the
 * calling thread. */
KEEL_API bool kl_arena_release(kl_arena_t* arena) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

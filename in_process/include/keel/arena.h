/* Arenas: memory that the program gives to Keel, or has reserved ahead, among it huge pages.
 *
 * Blocks in an arena are as any: kl_free and free take them, from every thread. All that is
 * allocated comes from the arenas that are not exclusive as long as they have room, and from the
 * system otherwise; from an exclusive one only the heaps take that kl_heap_new_in_arena
 * (keel/heap.h) has bound to it. Memory of an arena is never given back to the system while the
 * arena exists. At most 64 arenas exist at a time.
 *
 * All functions may be called from any thread. What is said in keel/keel.h of errors holds here too.
 */
#ifndef KEEL_ARENA_H
#define KEEL_ARENA_H

#include "keel/keel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_arena kl_arena_t;

/* Flags: of the memory that is handed over, or wished of what is reserved. */
enum kl_memory {
    kl_memory_zero = 1,      /* every byte of it is zero: calloc need not make it so */
    kl_memory_populated = 2, /* all of it is there: using it takes no page fault */
    kl_memory_exclusive = 4, /* only for heaps that are bound to it */
    kl_memory_large_pages =
        8, /* kl_reserve_os_memory: in pages of 2 MiB that the machine's administrator set aside */
};

#define KL_ANY_NUMA_NODE (-1)

/* Hands `bytes` bytes of memory from `start` on to Keel: readable and writable, the program's own, and
 * not used by it until kl_arena_release. Used are the whole multiples of 64 KiB in it. Threads on
 * `numa_node` are served from it before others; KL_ANY_NUMA_NODE if that does not matter. NULL:
 * EINVAL (not 64 KiB in it, or it is Keel's as it is), ENOMEM (for its descriptions), ENOSPC (64
 * arenas). Linear in `bytes`. */
KEEL_API kl_arena_t* kl_manage_os_memory(void* start, size_t bytes, unsigned flags,
                                         int numa_node) KEEL_NOEXCEPT;

/* Reserves `bytes`, rounded up to 2 MiB, from the system: an arena of memory that begins as zero.
 * kl_memory_populated: all of it is made there now, or else the call fails. kl_memory_large_pages:
 * in such pages, which are there then, if the machine has enough set aside; else in ordinary ones.
 * NULL and ENOMEM: the system refuses; else as kl_manage_os_memory. Linear if populated: about 0.3 s
 * a GiB. */
KEEL_API kl_arena_t* kl_reserve_os_memory(size_t bytes, unsigned flags) KEEL_NOEXCEPT;

/* Reserves up to `pages` pages of 1 GiB, which the administrator has set aside
 * (/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages), for everybody: on `numa_node`, or
 * spread over the first `numa_nodes` nodes (0: all of the machine). Ends after timeout_ms
 * milliseconds (0: no limit; looked at after each page, which takes about 0.3 s). 0: all pages were
 * had; ETIMEDOUT or ENOMEM: fewer, those that were had are reserved; EINVAL: no such node. errno
 * is kept. */
KEEL_API int kl_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                         size_t timeout_ms) KEEL_NOEXCEPT;
KEEL_API int kl_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                 size_t timeout_ms) KEEL_NOEXCEPT;

/* Nodes of memory that Keel tells apart: what kl_option_use_numa_nodes says, or else the machine. At
 * least 1. */
KEEL_API size_t kl_numa_nodes(void) KEEL_NOEXCEPT;

/* In bytes. */
struct kl_arena_state {
    void* start;        /* of what is used */
    size_t bytes;       /* its length */
    size_t used_bytes;  /* in pages and large blocks */
    size_t bound_heaps; /* heaps that are bound to it */
    int numa_node;      /* or KL_ANY_NUMA_NODE */
    bool exclusive;
};
KEEL_API void kl_arena_info(kl_arena_t* arena, struct kl_arena_state* info) KEEL_NOEXCEPT;

/* Ends the arena: its memory is the program's again, or the system's if it was reserved. False and
 * EBUSY: something of it is in use, or a heap is bound to it, and nothing changed. Of an arena that is
 * not exclusive threads keep empty pages, which kl_collect(true) makes the calling one give back. */
KEEL_API bool kl_arena_release(kl_arena_t* arena) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

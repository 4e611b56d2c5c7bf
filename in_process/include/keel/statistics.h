/* Statistics by block size: for the process, a thread, or a heap.
 *
 * malloc and free update no counters. Keel counts blocks when it prepares them for malloc, one page
 * at a time. Each page also has the number of its blocks that are in use. The functions below add
 * these numbers when they are called. Therefore
 *
 *     allocated == freed + used        for every size, since the process started
 *     used_bytes <= reserved_bytes     for every size
 *
 * always hold. The used and reserved bytes of all sizes are part of the held_bytes of
 * kl_process_info. No number is negative.
 *
 * While no other thread allocates or frees, the numbers are exact, with these exceptions:
 *
 *   - Freed blocks that have not yet returned to their owner count as used. So do those that the
 *     debug flavour keeps for a while.
 *   - In the numbers of the process, blocks that are ready for other threads or in user heaps count
 *     as used.
 *   - The secure and debug flavours do not count the blocks of 0 bytes of threads' heaps.
 *
 * While other threads run, the numbers are snapshots.
 *
 * Any thread may call these functions, and they allocate nothing. Their cost is linear in the
 * address space over which Keel's memory is spread (about 1 ms for 4 GiB). The cost of the
 * functions for a user heap is linear in the number of its pages.
 */
#ifndef KEEL_STATISTICS_H
#define KEEL_STATISTICS_H

#include "keel/heap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The blocks of one size. Blocks above 65536 bytes are counted one by one. Each class of such
 * blocks contains all sizes up to the next power of two. */
struct kl_size_stats {
    uint64_t block_bytes;    /* the size of a block; above 65536 the largest size of the class */
    uint64_t allocated;      /* blocks */
    uint64_t freed;          /* blocks, including those that kl_heap_destroy freed */
    uint64_t used;           /* live blocks */
    uint64_t used_bytes;     /* used * block_bytes; above 65536 their usable sizes */
    uint64_t pages;          /* with such blocks; for large blocks, the number of blocks */
    uint64_t reserved_bytes; /* in those pages */
};

/* Keel calls the visitor for each size of which at least one block has existed, in ascending order.
 * The visitor returns false to end the visit. It must not allocate from Keel. */
typedef bool kl_size_visitor(const struct kl_size_stats* size, void* argument);

/* kl_stats_visit visits the sizes of the process. kl_thread_stats_visit visits the sizes of the
 * calling thread's own heap, including the large blocks that were allocated from it.
 * kl_heap_stats_visit visits the sizes of `heap`, where kl_heap_backing() denotes the calling
 * thread's own heap. They return true unless the visitor returned false. */
KEEL_API bool kl_stats_visit(kl_size_visitor* visitor, void* argument) KEEL_NOEXCEPT;
KEEL_API bool kl_thread_stats_visit(kl_size_visitor* visitor, void* argument) KEEL_NOEXCEPT;
KEEL_API bool kl_heap_stats_visit(kl_heap_t* heap, kl_size_visitor* visitor,
                                  void* argument) KEEL_NOEXCEPT;

/* Print the same numbers as a readable table, like kl_stats_print. */
KEEL_API void kl_thread_stats_print(kl_output* output, void* argument) KEEL_NOEXCEPT;
KEEL_API void kl_heap_stats_print(kl_heap_t* heap, kl_output* output, void* argument) KEEL_NOEXCEPT;

/* Write the same numbers as one JSON object, like kl_stats_json. */
KEEL_API size_t kl_thread_stats_json(char* buffer, size_t size) KEEL_NOEXCEPT;
KEEL_API size_t kl_heap_stats_json(kl_heap_t* heap, char* buffer, size_t size) KEEL_NOEXCEPT;

/* Resets the counters of kl_stats_print, kl_stats_json and kl_stats_visit: from now on they count
 * from this call instead of the start of the process. The numbers of live blocks and the statistics
 * of threads and heaps do not change. */
KEEL_API void kl_stats_reset(void) KEEL_NOEXCEPT;

/* Counters of the calling thread's heap. */
struct kl_thread {
    uint64_t thread_id; /* the system's number of the thread */
    /* small blocks so far, of all threads that have owned the heap, including blocks that are ready
     * but not yet allocated */
    uint64_t allocated;
    uint64_t pages;         /* of small blocks, now */
    uint64_t refills;       /* calls of malloc that found no block ready */
    uint64_t pages_begun;   /* new pages so far */
    uint64_t blocks_sent;   /* blocks of other threads that this thread has freed and sent back */
    uint64_t batches_taken; /* lists of its blocks that it received from other threads, by page */
};

/* Fills *thread. All values are 0 for a thread that has not allocated yet. O(1). */
KEEL_API void kl_thread_info(struct kl_thread* thread) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

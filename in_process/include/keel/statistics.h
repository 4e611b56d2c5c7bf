/* Statistics by block size: for the process, a thread, or a heap.
 *
 * malloc and free do not count. Keel counts blocks when it makes them ready for malloc, a page at a
 * time, and each page knows how many of its blocks are in use. The functions here add these up when
 * they are called. Therefore
 *
 *     allocated == freed + used        for every size, since the process started
 *     used_bytes <= reserved_bytes     for every size
 *
 * always hold, the used and reserved bytes of all sizes are within the held_bytes of
 * kl_process_info, and no number is ever negative.
 *
 * While no other thread allocates or frees, the numbers are exact, with one exception: blocks that
 * are on their way back to the thread that owns them, and blocks that are ready for other threads,
 * count as used. While other threads run, the numbers are snapshots.
 *
 * All functions may be called from any thread, and they allocate nothing. They are linear in the
 * address space over which Keel's memory is spread (about 1 ms for 4 GiB); the functions for a user
 * heap are linear in its pages.
 */
#ifndef KEEL_STATISTICS_H
#define KEEL_STATISTICS_H

#include "keel/heap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The blocks of one size. Blocks above 65536 bytes are counted one by one, and each class holds all
 * sizes up to the next power of two. */
struct kl_size_stats {
    uint64_t block_bytes;    /* the size of a block; above 65536 the largest size of the class */
    uint64_t allocated;      /* blocks */
    uint64_t freed;          /* blocks, including those that kl_heap_destroy freed */
    uint64_t used;           /* live blocks */
    uint64_t used_bytes;     /* their usable size, which is at least what was requested */
    uint64_t pages;          /* that hold such blocks; for large blocks, the blocks */
    uint64_t reserved_bytes; /* in those pages */
};

/* Called for each size of which at least one block has existed, in ascending order. Returning false
 * ends the visit. Must not allocate from Keel. */
typedef bool kl_size_visitor(const struct kl_size_stats* size, void* argument);

/* Visit the sizes of the process; of the calling thread's own heap, including the large blocks that
 * were allocated from it; and of a heap, where kl_heap_backing() denotes the calling thread's own.
 * Return true if the visitor never returned false. */
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
    /* small blocks so far, by every thread that has owned the heap, including blocks that are ready
     * but not yet allocated */
    uint64_t allocated;
    uint64_t pages;         /* of small blocks, now */
    uint64_t refills;       /* calls of malloc that found no block ready */
    uint64_t pages_begun;   /* new pages so far */
    uint64_t blocks_sent;   /* blocks of other threads that this thread has freed and sent back */
    uint64_t batches_taken; /* batches of its own blocks, freed by others, that it has received */
};

/* Fills *thread. All values are 0 for a thread that has not allocated yet. O(1). */
KEEL_API void kl_thread_info(struct kl_thread* thread) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

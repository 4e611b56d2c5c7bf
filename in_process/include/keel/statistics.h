/* Statistics: of the process, of a thread, of a heap; by the size of blocks.
 *
 * malloc and free count nothing. Blocks are counted when they are put where malloc takes them from,
 * a page at a time, and the pages know how many of theirs are in use; each function here adds that
 * up when it is called. So
 *
 *     allocated == freed + used        for every size, since the start of the process
 *     used_bytes <= reserved_bytes, and their sum over the sizes is within kl_process_info's held_bytes
 *
 * hold by construction, and no figure is ever negative. While no other thread allocates or frees,
 * they are exact, but for this: blocks on their way back to the thread that they are from count
 * as used, and so do blocks that lie ready for other threads. While others do, they are momentary.
 *
 * All functions may be called from any thread; they allocate nothing. They are linear in the address
 * space that Keel's memory is spread over (about 1 ms for 4 GiB), those for a heap in its pages.
 */
#ifndef KEEL_STATISTICS_H
#define KEEL_STATISTICS_H

#include "keel/heap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the blocks of one size. Blocks above 65536 bytes stand by themselves, and together with all
 * others up to the next power of two. */
struct kl_size_stats {
    uint64_t block_bytes; /* of each block; above 65536 at most */
    uint64_t allocated;   /* blocks; those that are given back by kl_heap_destroy count as freed */
    uint64_t freed;
    uint64_t used;           /* in use now */
    uint64_t used_bytes;     /* their size, which is at least what was asked for */
    uint64_t pages;          /* that hold such blocks; of large ones the blocks */
    uint64_t reserved_bytes; /* of the pages */
};

/* Is called for each size of which there was any block, the smallest first. False: no more. Must not
 * allocate from Keel. */
typedef bool kl_size_visitor(const struct kl_size_stats* size, void* argument);

/* Of the process; of the calling thread's own heap, with the large blocks that were allocated from it; of a
 * heap, where kl_heap_backing() is the calling thread's. True: to the end. */
KEEL_API bool kl_stats_visit(kl_size_visitor* visitor, void* argument) KEEL_NOEXCEPT;
KEEL_API bool kl_thread_stats_visit(kl_size_visitor* visitor, void* argument) KEEL_NOEXCEPT;
KEEL_API bool kl_heap_stats_visit(kl_heap_t* heap, kl_size_visitor* visitor,
                                  void* argument) KEEL_NOEXCEPT;

/* The same as a table for people, as kl_stats_print. */
KEEL_API void kl_thread_stats_print(kl_output* output, void* argument) KEEL_NOEXCEPT;
KEEL_API void kl_heap_stats_print(kl_heap_t* heap, kl_output* output, void* argument) KEEL_NOEXCEPT;

/* And as one JSON object, as kl_stats_json. */
KEEL_API size_t kl_thread_stats_json(char* buffer, size_t size) KEEL_NOEXCEPT;
KEEL_API size_t kl_heap_stats_json(kl_heap_t* heap, char* buffer, size_t size) KEEL_NOEXCEPT;

/* What kl_stats_print, kl_stats_json and kl_stats_visit tell as counted since the start, they tell as
 * counted since this call. What is in use now, and what threads and heaps tell, is not changed. */
KEEL_API void kl_stats_reset(void) KEEL_NOEXCEPT;

/* The calling thread's part of the work. */
struct kl_thread {
    uint64_t thread_id; /* the system's number of it */
    uint64_t allocated; /* small blocks so far by whoever had its heap, with those that lie ready */
    uint64_t pages;     /* of small blocks that the heap has */
    uint64_t refills;   /* mallocs that did not find a block ready */
    uint64_t pages_begun;
    uint64_t blocks_sent;   /* blocks of other threads that it has freed and sent home */
    uint64_t batches_taken; /* batches of its own blocks that others freed and it has taken home */
};

/* Fills *thread. All 0 for a thread that has not allocated yet. O(1). */
KEEL_API void kl_thread_info(struct kl_thread* thread) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

/* Heaps of one's own: blocks that belong together and can be ended together.
 *
 * Every thread may allocate from every heap, and free and resize its blocks, by these functions or
 * by kl_free and free; a heap has a lock, so threads that use one at the same moment wait for each
 * other. Blocks of a heap are not in the bounds that hold for kl_malloc: a call may wait. Memory
 * is taken in pages of 64 KiB or more, each of one heap, so a heap of few small blocks occupies
 * more than they do.
 *
 * `heap` is never NULL. kl_heap_backing() stands for the calling thread's own heap, from which
 * kl_malloc takes: the functions that allocate accept it. What is said in keel/keel.h of errors
 * holds here too.
 */
#ifndef KEEL_HEAP_H
#define KEEL_HEAP_H

#include "keel/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_heap kl_heap_t;

/* --- Life -------------------------------------------------------------------------------------- */

/* A heap with nothing in it: about 8 KiB. NULL and ENOMEM without memory. */
KEEL_API kl_heap_t* kl_heap_new(void) KEEL_NOEXCEPT;

/* The same, and it holds at most so many bytes (0: no limit) for pages and large blocks. What would go
 * beyond fails as if there were no memory: NULL, ENOMEM, and kl_register_out_of_memory's handler is
 * asked before; the blocks in use stay. A page of small blocks takes 64 KiB or 256 KiB, so a limit
 * below that admits nothing. What the heap needs for itself does not count. */
KEEL_API kl_heap_t* kl_heap_new_with_limit(size_t bytes) KEEL_NOEXCEPT;

/* A heap all of whose blocks are in this arena: when it is full, NULL and ENOMEM. Its small blocks take pages
 * of 64 KiB or 256 KiB; taking one is linear in the size of an arena that is nearly full. NULL also
 * if the arena has been released. */
KEEL_API kl_heap_t* kl_heap_new_in_arena(kl_arena_t* arena) KEEL_NOEXCEPT;

/* Sets the limit of a heap; what it was before. No effect on kl_heap_backing(), and 0: its limit is
 * kl_limit. */
KEEL_API size_t kl_heap_limit(kl_heap_t* heap, size_t bytes) KEEL_NOEXCEPT;

/* Ends the heap, but not its blocks: they are freed as before, and what is left of the heap goes
 * with the last of them. The heap must not be used any more, and not be another thread's default;
 * on the calling thread, kl_malloc goes back to its own heap. No effect on kl_heap_backing(). */
KEEL_API void kl_heap_delete(kl_heap_t* heap) KEEL_NOEXCEPT;

/* Ends the heap and all its blocks: none may be used or freed afterwards. Linear in the pages of
 * the heap, not in its blocks. Else as kl_heap_delete. */
KEEL_API void kl_heap_destroy(kl_heap_t* heap) KEEL_NOEXCEPT;

/* Gives the heap's unused memory back. `force` as in kl_collect for kl_heap_backing(), else
 * without meaning. Linear in its size classes. */
KEEL_API void kl_heap_collect(kl_heap_t* heap, bool force) KEEL_NOEXCEPT;

/* The calling thread's own heap; the same pointer for every thread, which means another heap in each. */
KEEL_API kl_heap_t* kl_heap_backing(void) KEEL_NOEXCEPT;

/* What kl_malloc and malloc of the calling thread take from, and makes it another one
 * (kl_heap_backing(): as it was). The one before, or NULL and ENOMEM: nothing changed. While it is
 * not the backing heap, every allocation of this thread takes the slow path. */
KEEL_API kl_heap_t* kl_heap_default(void) KEEL_NOEXCEPT;
KEEL_API kl_heap_t* kl_heap_set_default(kl_heap_t* heap) KEEL_NOEXCEPT;

/* --- Allocating: as the functions without heap_, from this heap ---------------------------------- */

KEEL_API KEEL_API_ALLOCATES(2) void* kl_heap_malloc(kl_heap_t* heap, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2) void* kl_heap_zalloc(kl_heap_t* heap, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2, 3) void* kl_heap_calloc(kl_heap_t* heap, size_t count,
                                                       size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2, 3) void* kl_heap_mallocn(kl_heap_t* heap, size_t count,
                                                        size_t size) KEEL_NOEXCEPT;

/* A block that has to move, moves to `heap`, whichever it was from. */
KEEL_API KEEL_API_RESIZES(3) void* kl_heap_realloc(kl_heap_t* heap, void* block,
                                                   size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(3, 4) void* kl_heap_reallocn(kl_heap_t* heap, void* block, size_t count,
                                                       size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(3) void* kl_heap_reallocf(kl_heap_t* heap, void* block,
                                                    size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(3) void* kl_heap_rezalloc(kl_heap_t* heap, void* block,
                                                    size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(3, 4) void* kl_heap_recalloc(kl_heap_t* heap, void* block, size_t count,
                                                       size_t size) KEEL_NOEXCEPT;

KEEL_API char* kl_heap_strdup(kl_heap_t* heap, const char* string) KEEL_NOEXCEPT;
KEEL_API char* kl_heap_strndup(kl_heap_t* heap, const char* string, size_t length) KEEL_NOEXCEPT;
KEEL_API char* kl_heap_realpath(kl_heap_t* heap, const char* path, char* resolved) KEEL_NOEXCEPT;

/* Aligned; without _at as with offset 0. */
KEEL_API KEEL_API_ALLOCATES(3) void* kl_heap_aligned_alloc(kl_heap_t* heap, size_t alignment,
                                                           size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(3, 4) void* kl_heap_aligned_calloc(kl_heap_t* heap, size_t alignment,
                                                               size_t count,
                                                               size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4) void* kl_heap_aligned_realloc(kl_heap_t* heap, void* block,
                                                           size_t alignment,
                                                           size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4) void* kl_heap_aligned_rezalloc(kl_heap_t* heap, void* block,
                                                            size_t alignment,
                                                            size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(4, 5) void* kl_heap_aligned_recalloc(kl_heap_t* heap, void* block,
                                                               size_t alignment, size_t count,
                                                               size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(4) void* kl_heap_aligned_alloc_at(kl_heap_t* heap, size_t alignment,
                                                              size_t offset,
                                                              size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(4, 5) void* kl_heap_aligned_calloc_at(kl_heap_t* heap, size_t alignment,
                                                                  size_t offset, size_t count,
                                                                  size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(5) void* kl_heap_aligned_realloc_at(kl_heap_t* heap, void* block,
                                                              size_t alignment, size_t offset,
                                                              size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(5) void* kl_heap_aligned_rezalloc_at(kl_heap_t* heap, void* block,
                                                               size_t alignment, size_t offset,
                                                               size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_RESIZES(5, 6) void* kl_heap_aligned_recalloc_at(kl_heap_t* heap, void* block,
                                                                  size_t alignment, size_t offset,
                                                                  size_t count,
                                                                  size_t size) KEEL_NOEXCEPT;

#define kl_heap_malloc_of(heap, type) KEEL_API_AS(type, kl_heap_malloc((heap), sizeof(type)))
#define kl_heap_zalloc_of(heap, type) KEEL_API_AS(type, kl_heap_zalloc((heap), sizeof(type)))
#define kl_heap_mallocn_of(heap, type, count)                                                      \
    KEEL_API_AS(type, kl_heap_mallocn((heap), (count), sizeof(type)))
#define kl_heap_calloc_of(heap, type, count)                                                       \
    KEEL_API_AS(type, kl_heap_calloc((heap), (count), sizeof(type)))
#define kl_heap_reallocn_of(heap, block, type, count)                                              \
    KEEL_API_AS(type, kl_heap_reallocn((heap), (block), (count), sizeof(type)))
#define kl_heap_recalloc_of(heap, block, type, count)                                              \
    KEEL_API_AS(type, kl_heap_recalloc((heap), (block), (count), sizeof(type)))

/* --- Looking at a heap ------------------------------------------------------------------------- */

/* True if `block` is a block of this heap. `block` is NULL, foreign, or a block in use. O(1). */
KEEL_API bool kl_heap_contains(kl_heap_t* heap, const void* block) KEEL_NOEXCEPT;

/* True if the address is in memory that holds, or has held, blocks of this heap; any address is
 * allowed. Above 64 KiB only the block's start is recognised. O(1), under the heap's lock. */
KEEL_API bool kl_heap_owns(kl_heap_t* heap, const void* address) KEEL_NOEXCEPT;

/* A run of memory that holds blocks of one size. All in bytes. */
struct kl_heap_area {
    void* blocks;          /* where it begins */
    size_t reserved_bytes; /* its length */
    size_t carved_bytes;   /* of it, what has been blocks so far */
    size_t used_bytes;     /* in blocks in use */
    size_t block_bytes;    /* of one block */
};

/* Is called for each area with block NULL, and then, if blocks are wanted, for each block in use
 * with the place where it begins (which for one that is aligned at an offset is before the address
 * that the program has). False: no more.
 *
 * It may call malloc and free; but of a heap that kl_heap_new and the like have made no function, and
 * it must not free that heap's blocks. Of kl_heap_backing() it may do both: what it allocates may be seen or
 * not, what it frees before it was called for it may still be. It must return: no longjmp, no end of the
 * thread. */
typedef bool kl_heap_visitor(const struct kl_heap_area* area, void* block, void* argument);

/* Visits all areas, which for a large block is the block itself. True: to the end. Linear; the heap is
 * locked meanwhile.
 *
 * Of kl_heap_backing(): the blocks of the calling thread's own heap, which are those that it has
 * allocated, and those that an ended thread has left whose heap it goes on with. What other threads have
 * freed of them is taken home first; blocks that one of them has freed but still holds back (until it sends
 * them by kl_thread_idle, or ends) count as in use. With that they are exact while no other thread
 * frees any; who frees large ones meanwhile may have them seen or not. Areas come in the order of their addresses.
 * Linear in the address space that Keel's memory is spread over (about 1 ms for 4 GiB), and in the blocks
 * of the heap's pages; no lock is held. */
KEEL_API bool kl_heap_visit(kl_heap_t* heap, bool blocks, kl_heap_visitor* visitor,
                            void* argument) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

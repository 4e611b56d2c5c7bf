/* User heaps: blocks that belong together and can be freed together.
 *
 * Any thread may allocate from any heap. It may also free and resize the heap's blocks, with these
 * functions or with kl_free and free. Each heap has a lock: threads that use the same heap at the
 * same time wait for each other. Therefore the bounds of kl_malloc do not apply to these functions.
 * A heap uses pages of 64 KiB or more, and does not share them with other heaps. Therefore a heap
 * with few small blocks occupies more memory than the blocks.
 *
 * The argument `heap` must not be NULL. kl_heap_backing() denotes the calling thread's own heap,
 * from which kl_malloc allocates. The functions that allocate accept this handle. The rules of
 * keel/keel.h for errors and threads also apply here.
 */
#ifndef KEEL_HEAP_H
#define KEEL_HEAP_H

#include "keel/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_heap kl_heap_t;

/* --- Create and end heaps --------------------------------------------------------------------- */

/* Creates an empty heap, which occupies about 8 KiB. If there is no memory, returns NULL and sets
 * errno to ENOMEM. */
KEEL_API kl_heap_t* kl_heap_new(void) KEEL_NOEXCEPT;

/* Like kl_heap_new, with a limit: the heap holds at most `bytes` bytes (0: no limit) in pages and
 * large blocks, and its last large block may exceed that by less than 256 KiB, because its size is
 * rounded up. An allocation that would exceed the limit first calls the handler of
 * kl_register_out_of_memory. If the handler frees no memory, the allocation returns NULL and sets
 * errno to ENOMEM. Live blocks are not affected. A page of small blocks takes 64 to 256 KiB,
 * depending on their size. If the limit is below what the first page of a size takes, no block of
 * this size can be allocated. The heap's own metadata does not count. */
KEEL_API kl_heap_t* kl_heap_new_with_limit(size_t bytes) KEEL_NOEXCEPT;

/* Creates a heap that allocates all its blocks in this arena. When the arena is full, allocations
 * return NULL and set errno to ENOMEM. Small blocks are in pages of 64 to 256 KiB. To find a
 * page in an arena that is nearly full takes time linear in the size of the arena. If the arena has
 * been released, the function returns NULL. If `arena` is NULL, it returns NULL and sets errno to
 * EINVAL. */
KEEL_API kl_heap_t* kl_heap_new_in_arena(kl_arena_t* arena) KEEL_NOEXCEPT;

/* Sets the limit of a heap in bytes (0: no limit) and returns the previous limit. For
 * kl_heap_backing() it does nothing and returns 0. To limit that heap, use kl_limit
 * (keel/runtime.h). */
KEEL_API size_t kl_heap_limit(kl_heap_t* heap, size_t bytes) KEEL_NOEXCEPT;

/* Ends the heap and keeps its live blocks, which the program frees as before. When the last block
 * is freed, Keel frees the rest of the heap. The heap must not be used after this call, and must
 * not be the default heap of another thread. If it is the default heap of the calling thread,
 * kl_malloc uses the thread's own heap again. For kl_heap_backing() the function does nothing. */
KEEL_API void kl_heap_delete(kl_heap_t* heap) KEEL_NOEXCEPT;

/* Ends the heap and all its blocks. The blocks must not be used or freed afterwards. The cost is
 * linear in the number of the heap's pages and does not depend on the number of its blocks. In all
 * other respects the function is like kl_heap_delete. */
KEEL_API void kl_heap_destroy(kl_heap_t* heap) KEEL_NOEXCEPT;

/* Releases the unused pages of the heap. For kl_heap_backing() it is the same as kl_collect(force).
 * For other heaps `force` is ignored, and the cost is linear in the number of size classes. */
KEEL_API void kl_heap_collect(kl_heap_t* heap, bool force) KEEL_NOEXCEPT;

/* Returns the handle of the calling thread's own heap. All threads receive the same pointer, but it
 * denotes a different heap in each thread. */
KEEL_API kl_heap_t* kl_heap_backing(void) KEEL_NOEXCEPT;

/* kl_heap_default returns the calling thread's default heap: the heap from which kl_malloc and
 * malloc allocate on this thread. kl_heap_set_default sets it and returns the previous one. The
 * argument kl_heap_backing() restores the initial state. If there is no memory, or the thread
 * is ending and has left its own heap, kl_heap_set_default changes nothing, returns NULL and sets
 * errno to ENOMEM. While the default heap is not the backing heap, every allocation of this thread
 * takes the slow path. */
KEEL_API kl_heap_t* kl_heap_default(void) KEEL_NOEXCEPT;
KEEL_API kl_heap_t* kl_heap_set_default(kl_heap_t* heap) KEEL_NOEXCEPT;

/* --- Allocate --------------------------------------------------------------------------------- */

/* Like the functions without heap_ in keel/keel.h, but allocate from this heap. */
KEEL_API KEEL_API_ALLOCATES(2) void* kl_heap_malloc(kl_heap_t* heap, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2) void* kl_heap_zalloc(kl_heap_t* heap, size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2, 3) void* kl_heap_calloc(kl_heap_t* heap, size_t count,
                                                       size_t size) KEEL_NOEXCEPT;
KEEL_API KEEL_API_ALLOCATES(2, 3) void* kl_heap_mallocn(kl_heap_t* heap, size_t count,
                                                        size_t size) KEEL_NOEXCEPT;

/* Resize a block. The block may be in any heap. If it has to move, the new block is in `heap`. */
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

/* Copy strings and resolve paths into blocks of this heap. */
KEEL_API char* kl_heap_strdup(kl_heap_t* heap, const char* string) KEEL_NOEXCEPT;
KEEL_API char* kl_heap_strndup(kl_heap_t* heap, const char* string, size_t length) KEEL_NOEXCEPT;
KEEL_API char* kl_heap_realpath(kl_heap_t* heap, const char* path, char* resolved) KEEL_NOEXCEPT;

/* Aligned blocks. The functions without _at work like those with _at and offset 0. */
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

/* Allocate by type. */
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

/* --- Inspect a heap --------------------------------------------------------------------------- */

/* Returns true if `block` is a block of this heap. `block` may be NULL, a live block, or a block of
 * another allocator. O(1).
 *
 * Two kinds of blocks from kl_malloc and its variants belong to no thread's heap: those aligned at
 * an offset and, in the secure and debug flavours, those of 0 bytes. For them the function, the
 * visits and the statistics of kl_heap_backing() behave as for blocks of another heap. */
KEEL_API bool kl_heap_contains(kl_heap_t* heap, const void* block) KEEL_NOEXCEPT;

/* Returns true if the address is in memory that holds, or has held, blocks of this heap. Any
 * address is allowed. In a block of more than 64 KiB only the start address is recognised. O(1),
 * under the heap's lock. */
KEEL_API bool kl_heap_owns(kl_heap_t* heap, const void* address) KEEL_NOEXCEPT;

/* A range of memory that holds blocks of one size. All sizes are in bytes. In libkeel-secure blocks
 * of 1,017 bytes to 64 KiB have the size that was requested (kl_usable_size), and their area the
 * largest one that it has room for. Blocks of 0 bytes are in no area there. */
struct kl_heap_area {
    void* blocks;          /* where the range begins */
    size_t reserved_bytes; /* its length */
    size_t carved_bytes;   /* the part that has been divided into blocks so far */
    size_t used_bytes;     /* in live blocks */
    size_t block_bytes;    /* the size of one block */
};

/* Keel calls the visitor for each area with `block` NULL. If blocks are requested, Keel then calls
 * it for each live block of the area. `block` is the address where the block begins. For a block
 * that is aligned at an offset, this address is lower than the one that the program received. The
 * visitor returns false to end the visit.
 *
 * The visitor may call malloc and free. For a heap from kl_heap_new and its variants, it must not
 * call any function of that heap or free its blocks, and it must not call fork, which takes the
 * locks of all heaps. For kl_heap_backing() all of these are allowed. A block that the visitor
 * allocates may be visited or not. A block that the visitor frees before it is visited may still be
 * visited. The visitor must return: it must not call longjmp or end the thread. */
typedef bool kl_heap_visitor(const struct kl_heap_area* area, void* block, void* argument);

/* Visits all areas of the heap. A large block is an area of its own. Returns true unless the
 * visitor returned false. The cost is linear in the pages and blocks of the heap. The heap is
 * locked during the visit.
 *
 * For kl_heap_backing() it visits the blocks of the calling thread's own heap: the blocks that the
 * thread has allocated, and the blocks of an ended thread whose heap it has adopted.
 *
 *   - Keel first collects the blocks of this heap that other threads have freed. Blocks that
 *     another thread has freed but not yet sent back count as live. That thread sends them back
 *     when it calls kl_thread_idle or ends. Apart from these blocks, the visit is exact while no
 *     other thread frees blocks of this heap. A large block that another thread frees during the
 *     visit may be visited or not.
 *   - Areas are visited in the order of their addresses.
 *   - The cost is linear in the address space over which Keel's memory is spread (about 1 ms for
 *     4 GiB) and in the blocks of the heap's pages. No lock is held. */
KEEL_API bool kl_heap_visit(kl_heap_t* heap, bool blocks, kl_heap_visitor* visitor,
                            void* argument) KEEL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif

// Functions between the public functions and alloc/: they start the allocator and set errno.
#ifndef KEEL_ALLOCATOR_API_ENTRY_H
#define KEEL_ALLOCATOR_API_ENTRY_H

#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/debug/debug.h"
#include "base/bits.h"
#include "base/checked.h"
#include <errno.h>

// The slow path of malloc. Starts the allocator if this is its first use. Sets errno when it
// returns NULL.
KEEL_NOINLINE void* entry_malloc(size_t size);
void* entry_zeroed(size_t size);
void* entry_aligned(size_t size, size_t alignment);
// realloc with all its corner cases; block may be NULL, and size 0.
void* entry_realloc(void* block, size_t size);

// The general form of all allocations. If `heap` is NULL, allocates from the heap that the calling
// thread's malloc uses. Sets EINVAL if the alignment is not a power of two, or if it is above
// 64 KiB and the offset is not a multiple of it.
void* entry_request(struct user_heap* heap, struct request request);

// Resizes a block of any heap. If the block has to move, the new block is in `heap`. block may be
// NULL, and the size 0.
void* entry_resize(struct user_heap* heap, void* block, struct request request);

KEEL_INLINE void* entry_allocate(size_t size) {
    if (KEEL_DEBUG) return entry_malloc(size);
    void* block = alloc_hit(size);
    return KEEL_LIKELY(block != NULL) ? block : entry_malloc(size);
}

// The same in a partition (space/partition.h), which only the secure flavour has.
void* entry_malloc_in(size_t size, unsigned partition);
void* entry_zeroed_in(size_t size, unsigned partition);
void* entry_aligned_in(size_t size, size_t alignment, unsigned partition);
KEEL_INLINE void* entry_allocate_in(size_t size, unsigned partition) {
    if (!KEEL_SECURE) return entry_allocate(size);
    void* block = alloc_hit_in(size, partition);
    return KEEL_LIKELY(block != NULL) ? block : entry_malloc_in(size, partition);
}

// The partition for a token of the compiler (keel/keel.h).
KEEL_INLINE unsigned entry_partition_of(size_t token) {
    unsigned quarter = (unsigned)(token >> (8 * sizeof token - 2));
    if (token >> 32 == 0) return (unsigned)token % PARTITIONS;
    return quarter < 2 ? 1 : quarter;
}

// The functions of alloc/ for addresses that the program passes. In the debug flavour, those of
// debug/.
KEEL_INLINE void entry_free_kind(void* block, enum block_kind kind) {
    if (KEEL_DEBUG)
        debug_free(block, kind);
    else
        free_block(block);
}
KEEL_INLINE void entry_free(void* block) {
    entry_free_kind(block, BLOCK_ANY);
}
KEEL_INLINE void entry_free_any(void* block) {
    if (KEEL_DEBUG)
        debug_free(block, BLOCK_ANY);
    else
        free_any(block);
}
KEEL_INLINE void entry_free_sized_kind(void* block, size_t size, size_t alignment, bool exact,
                                       enum block_kind kind) {
    if (KEEL_DEBUG)
        debug_free_sized(block, size, kind);
    else
        free_sized_block(block, size, alignment, exact);
}
KEEL_INLINE void entry_free_sized(void* block, size_t size, size_t alignment, bool exact) {
    entry_free_sized_kind(block, size, alignment, exact, BLOCK_ANY);
}
KEEL_INLINE size_t entry_usable_bytes(const void* block) {
    if (KEEL_DEBUG) return debug_usable_bytes(block);
    return KEEL_SECURE ? block_verified_bytes(block) : block_usable_bytes(block);
}

// Returns count * size, or, on overflow, a size for which every allocation fails.
KEEL_INLINE size_t entry_product(size_t count, size_t size) {
    size_t bytes;
    return size_multiply(count, size, &bytes) ? bytes : SIZE_MAX;
}

KEEL_INLINE bool entry_alignment_valid(size_t alignment) {
    if (KEEL_LIKELY(is_power_of_two(alignment))) return true;
    errno = EINVAL;
    return false;
}

// Like glibc's memalign: accepts any alignment and rounds it up to the next power of two. Sets
// EINVAL if there is none.
void* entry_memalign(size_t size, size_t alignment);
void* entry_valloc(size_t size);
void* entry_pvalloc(size_t size);

int entry_posix_memalign(void** block, size_t alignment, size_t size);

#endif

// What stands between the names that users call and alloc/: the process's start, and errno.
#ifndef KEEL_ALLOCATOR_API_ENTRY_H
#define KEEL_ALLOCATOR_API_ENTRY_H

#include "allocator/alloc/alloc.h"
#include "base/checked.h"

// The slow half of malloc: starts the allocator if this is its first use; sets errno when it
// returns NULL.
KEEL_NOINLINE void* entry_malloc(size_t size);
void* entry_zeroed(size_t size);
void* entry_aligned(size_t size, size_t alignment);
// realloc with all its corner cases; block may be NULL, size 0.
void* entry_realloc(void* block, size_t size);

KEEL_INLINE void* entry_allocate(size_t size) {
    void* block = alloc_hit(size);
    return KEEL_LIKELY(block != NULL) ? block : entry_malloc(size);
}

// count * size, or a size that no allocation grants.
KEEL_INLINE size_t entry_product(size_t count, size_t size) {
    size_t bytes;
    return size_multiply(count, size, &bytes) ? bytes : SIZE_MAX;
}

// As glibc's memalign: any alignment, taken up to the next power of two. EINVAL if there is none.
void* entry_memalign(size_t size, size_t alignment);
void* entry_valloc(size_t size);
void* entry_pvalloc(size_t size);

int entry_posix_memalign(void** block, size_t alignment, size_t size);

#endif

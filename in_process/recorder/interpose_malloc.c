/* The C allocation functions. A birth is stamped and published after the call, a death before it
 * (journal/ring.h). Failed calls and free(NULL) are no operations. */
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "next.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void* malloc(size_t size);
EXPORT void free(void* block);
EXPORT void* calloc(size_t count, size_t size);
EXPORT void* realloc(void* block, size_t size);
EXPORT void* reallocarray(void* block, size_t count, size_t size);
EXPORT void* memalign(size_t align, size_t size);
EXPORT int posix_memalign(void** block, size_t align, size_t size);
EXPORT void* aligned_alloc(size_t align, size_t size);
EXPORT void* valloc(size_t size);
EXPORT void* pvalloc(size_t size);
EXPORT size_t malloc_usable_size(void* block);

void* malloc(size_t size) {
    bool on = recording();
    void* block = next.malloc(size);
    if (LIKELY(on && block != NULL)) record(KL_RING_MALLOC, ticks(), block, size, 0);
    return block;
}

void free(void* block) {
    if (recording() && LIKELY(block != NULL && block != recorder_thread.deleting)) {
        record(KL_RING_FREE, ticks(), block, 0, 0);
    }
    next.free(block);
}

void* calloc(size_t count, size_t size) {
    bool on = recording();
    void* block = next.calloc(count, size);
    if (LIKELY(on && block != NULL)) record(KL_RING_CALLOC, ticks(), block, count * size, 0);
    return block;
}

void* realloc(void* block, size_t size) {
    if (!recording()) return next.realloc(block, size);
    if (block == NULL) {
        void* created = next.realloc(NULL, size);
        if (created != NULL) record(KL_RING_REALLOC_NULL, ticks(), created, size, 0);
        return created;
    }
    record(KL_RING_REALLOC_BEGIN, ticks(), block, size, 0);
    uint64_t old = (uint64_t)block & KL_EXTRA_MASK;
    void* moved = next.realloc(block, size);
    record(KL_RING_REALLOC_END, ticks(), moved, size, old);
    return moved;
}

/* Not forwarded: the next definition may call realloc by name, which would be us again. */
void* reallocarray(void* block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

static void* aligned_recorded(bool on, void* block, size_t align, size_t size) {
    if (on && block != NULL) record(KL_RING_ALIGNED, ticks(), block, size, align & KL_EXTRA_MASK);
    return block;
}

/* memalign rounds an alignment that is no power of two up to one. */
static size_t power_of_two(size_t align) {
    size_t power = sizeof(void*);
    while (power < align && power << 1 != 0) power <<= 1;
    return power;
}

void* memalign(size_t align, size_t size) {
    bool on = recording();
    return aligned_recorded(on, next.memalign(align, size), power_of_two(align), size);
}

int posix_memalign(void** block, size_t align, size_t size) {
    bool on = recording();
    int error = next.posix_memalign(block, align, size);
    if (error == 0) aligned_recorded(on, *block, align, size);
    return error;
}

void* aligned_alloc(size_t align, size_t size) {
    bool on = recording();
    return aligned_recorded(on, next.aligned_alloc(align, size), power_of_two(align), size);
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void* valloc(size_t size) {
    bool on = recording();
    return aligned_recorded(on, next.valloc(size), page_bytes(), size);
}

void* pvalloc(size_t size) {
    bool on = recording();
    return aligned_recorded(on, next.pvalloc(size), page_bytes(), size);
}

/* Passed through, so that it and malloc always are of the same allocator. */
size_t malloc_usable_size(void* block) {
    recording(); /* the first call of a process finds the next definitions */
    return next.malloc_usable_size(block);
}

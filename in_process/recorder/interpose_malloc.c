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
EXPORT void free_sized(void* block, size_t size);
EXPORT void free_aligned_sized(void* block, size_t align, size_t size);
EXPORT void cfree(void* block);

void* malloc(size_t size) {
    bool on = recording();
    void* block = next.malloc(size);
    if (LIKELY(on && block != NULL)) record(KL_RING_MALLOC, ticks(), block, size, ORIGIN());
    return block;
}

/* The free that an operator delete of the C++ library ends in: the operator told what is known of the
 * block, and this is the moment to record it. */
static __attribute__((noinline, cold)) void deleting_record(void* block, const void* caller) {
    uint64_t told = recorder_thread.deleting.told;
    if (block != recorder_thread.deleting.block) return;
    recorder_thread.deleting = (struct deleting){NULL, 0};
    uint64_t from = origin(caller);
    record(KL_RING_FREE, ticks_of_free(), block, told, from);
}

static inline void free_record(void* block, const void* caller) {
    if (recording() && LIKELY(block != NULL && block != recorder_thread.deleting.block)) {
        uint64_t from = origin(caller);
        record(KL_RING_FREE, ticks_of_free(), block, 0, from);
    } else if (block != NULL && recorder_thread.deleting.told != 0) {
        deleting_record(block, caller);
    }
}

void free(void* block) {
    free_record(block, __builtin_return_address(0));
    next.free(block);
}

/* Records a free that tells more than the address. Returns what recorder_thread.deleting was: it names
 * the block until the call is over, which may free it by name. */
static struct deleting told_record(void* block, uint64_t told, const void* caller) {
    struct deleting outer = recorder_thread.deleting;
    if (!recording() || block == NULL) return outer;
    if (block != outer.block || outer.told != 0) {
        uint64_t from = origin(caller);
        record(KL_RING_FREE, ticks_of_free(), block, told, from);
    }
    recorder_thread.deleting = (struct deleting){block, 0};
    return outer;
}

/* C23's, which older C libraries lack; there a program that asks for them shall find none worse than
 * free. */
void free_sized(void* block, size_t size) {
    struct deleting outer = told_record(block, told_size(size), __builtin_return_address(0));
    if (next.free_sized != NULL) {
        next.free_sized(block, size);
    } else {
        next.free(block);
    }
    recorder_thread.deleting = outer;
}

void free_aligned_sized(void* block, size_t align, size_t size) {
    uint64_t told = told_size(size) | told_align(align);
    struct deleting outer = told_record(block, told, __builtin_return_address(0));
    if (next.free_aligned_sized != NULL) {
        next.free_aligned_sized(block, align, size);
    } else {
        next.free(block);
    }
    recorder_thread.deleting = outer;
}

/* SunOS's free, in old programs only. */
void cfree(void* block) {
    free_record(block, __builtin_return_address(0));
    next.free(block);
}

/* Whether the block that the next definition gave came by us already, since it calls another of its
 * allocator's functions by name. */
static inline bool told(uint64_t before, const void* block) {
    return UNLIKELY(recorder_thread.head != before) && thread_told_birth(before, block);
}

void* calloc(size_t count, size_t size) {
    bool on = recording();
    uint64_t before = recorder_thread.head;
    void* block = next.calloc(count, size);
    if (LIKELY(on && block != NULL && !told(before, block)))
        record(KL_RING_CALLOC, ticks(), block, count * size, ORIGIN());
    return block;
}

static void* realloc_from(void* block, size_t size, const void* caller) {
    if (!recording()) return next.realloc(block, size);
    if (block == NULL) {
        uint64_t before = recorder_thread.head;
        void* created = next.realloc(NULL, size);
        if (created != NULL && !told(before, created))
            record(KL_RING_REALLOC_NULL, ticks(), created, size, origin(caller));
        return created;
    }
    uint64_t from = origin(caller);
    record(KL_RING_REALLOC_BEGIN, ticks(), block, size, from);
    uint64_t old = (uint64_t)block & KL_EXTRA_MASK;
    struct deleting outer = recorder_thread.deleting;
    recorder_thread.deleting = (struct deleting){block, 0}; /* if it is freed by name, it is told */
    uint64_t before = recorder_thread.head;
    void* moved = next.realloc(block, size);
    recorder_thread.deleting = outer;
    /* A new block that was made by name is told too: then all that is left to say is that the old one
     * has gone. */
    bool made = moved != NULL && told(before, moved);
    record(KL_RING_REALLOC_END, ticks(), made ? NULL : moved, made ? 0 : size, old);
    return moved;
}

void* realloc(void* block, size_t size) {
    return realloc_from(block, size, __builtin_return_address(0));
}

/* Not forwarded: the next definition may call realloc by name, which would be us again. */
void* reallocarray(void* block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc_from(block, bytes, __builtin_return_address(0));
}

/* What is known before the call: whether it is recorded, and how far this thread had come. */
struct before {
    bool on;
    uint64_t head;
};
static inline struct before before(void) {
    bool on = recording();
    return (struct before){on, recorder_thread.head};
}

static void* aligned_recorded(struct before before, void* block, size_t align, size_t size,
                              const void* caller) {
    if (align < sizeof(void*)) align = sizeof(void*);
    /* libstdc++ rounds what an operator new asks for up to a multiple of the alignment. */
    size_t asked = recorder_thread.new_size;
    if (asked != 0 && asked <= size && size - asked < align) size = asked;
    if (before.on && block != NULL && !told(before.head, block))
        record(KL_RING_ALIGNED, ticks(), block, size_with_align(size, align), origin(caller));
    return block;
}

void* memalign(size_t align, size_t size) {
    struct before first = before();
    return aligned_recorded(first, next.memalign(align, size), align, size,
                            __builtin_return_address(0));
}

int posix_memalign(void** block, size_t align, size_t size) {
    struct before first = before();
    int error = next.posix_memalign(block, align, size);
    if (error == 0) aligned_recorded(first, *block, align, size, __builtin_return_address(0));
    return error;
}

void* aligned_alloc(size_t align, size_t size) {
    struct before first = before();
    return aligned_recorded(first, next.aligned_alloc(align, size), align, size,
                            __builtin_return_address(0));
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void* valloc(size_t size) {
    struct before first = before();
    return aligned_recorded(first, next.valloc(size), page_bytes(), size,
                            __builtin_return_address(0));
}

void* pvalloc(size_t size) {
    struct before first = before();
    return aligned_recorded(first, next.pvalloc(size), page_bytes(), size,
                            __builtin_return_address(0));
}

/* Passed through, so that it and malloc always are of the same allocator. */
size_t malloc_usable_size(void* block) {
    recording(); /* the first call of a process finds the next definitions */
    return next.malloc_usable_size(block);
}

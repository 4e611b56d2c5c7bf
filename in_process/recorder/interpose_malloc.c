// The C allocation functions. For an allocation, the time is read and the event is published after
// the call. For a free, this is done before the call (journal/ring.h). Failed calls and free(NULL)
// are not recorded. malloc_usable_size is not here, so the program finds the one that it would find
// without the recorder.
#include "base/attributes.h"
#include "names.h"
#include "next.h"
#include "patch.h"
#include "sampling.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
KEEL_EXPORT void* malloc(size_t size);
KEEL_EXPORT void free(void* block);
KEEL_EXPORT void* calloc(size_t count, size_t size);
KEEL_EXPORT void* realloc(void* block, size_t size);
KEEL_EXPORT void* reallocarray(void* block, size_t count, size_t size);
KEEL_EXPORT void* memalign(size_t align, size_t size);
KEEL_EXPORT int posix_memalign(void** block, size_t align, size_t size);
KEEL_EXPORT void* aligned_alloc(size_t align, size_t size);
KEEL_EXPORT void* valloc(size_t size);
KEEL_EXPORT void* pvalloc(size_t size);
KEEL_EXPORT void free_sized(void* block, size_t size);
KEEL_EXPORT void free_aligned_sized(void* block, size_t align, size_t size);
KEEL_EXPORT void cfree(void* block);

#define IS_INNER(name) KEEL_UNLIKELY(next_is_inner[NAME_INDEX_##name])

// musl's calloc calls malloc by name, which is a part of the same operation.
#if defined(__GLIBC__)
enum { IN_CALLOC = false };
static void* next_calloc(size_t count, size_t size) {
    return next.calloc(count, size);
}
#else
#define IN_CALLOC (recorder_thread.in_calloc)
static void* next_calloc(size_t count, size_t size) {
    recorder_thread.in_calloc = true;
    void* block = next.calloc(count, size);
    recorder_thread.in_calloc = false;
    return block;
}
#endif

// The functions named *_recorded and *_passed are not inlined, because each kind of call would save
// the registers of the other.
static KEEL_NOINLINE void* malloc_recorded(size_t size, const void* caller) {
    if (IS_INNER(malloc) || IN_CALLOC) return next.malloc(size);
    struct before before = before_call();
    void* block = next.malloc(size);
    allocation_record(KL_RING_MALLOC, before, block, size, size, caller);
    return block;
}

static KEEL_NOINLINE void* malloc_passed(size_t size, uint64_t left) {
    void* block = next.malloc(size);
    sampling_passed(left, size);
    return block;
}

static KEEL_NOINLINE void* malloc_deep(size_t size, const void* caller) {
    uint64_t left = sampling_left();
    return left > size ? malloc_passed(size, left) : malloc_recorded(size, caller);
}

void* malloc(size_t size) {
    uintptr_t distance = atomic_get(&sampled_state.distance);
    if (KEEL_UNLIKELY(distance == 0)) return malloc_deep(size, __builtin_return_address(0));
    uint64_t* countdown = countdown_at(distance);
    uint64_t left = *countdown;
    if (KEEL_UNLIKELY(left <= size)) return malloc_deep(size, __builtin_return_address(0));
    *countdown = left - 1 - size;
    return next.malloc(size);
}

// Records the free inside an operator delete of the C++ library, with the operator's hint.
static KEEL_COLD void deleting_record(void* block, const void* caller) {
    uint64_t hint = recorder_thread.deleting.hint;
    if (block != recorder_thread.deleting.block) return;
    recorder_thread.deleting = (struct deleting){NULL, 0};
    if (!release_counts(block)) return;
    uint64_t from = origin(caller);
    record(KL_RING_FREE, ticks(), block, hint, from);
}

KEEL_INLINE void free_record(void* block, const void* caller) {
    if (recording() && KEEL_LIKELY(block != NULL && block != recorder_thread.deleting.block)) {
        if (!release_counts(block)) return;
        uint64_t from = origin(caller);
        record(KL_RING_FREE, ticks(), block, 0, from);
    } else if (block != NULL && recorder_thread.deleting.hint != 0) {
        deleting_record(block, caller);
    }
}

// The next definition may free the block by a name of its allocator, which is then not recorded.
static KEEL_NOINLINE void free_with_names(void* block) {
    struct deleting outer = recorder_thread.deleting;
    recorder_thread.deleting = (struct deleting){block, 0};
    next.free(block);
    recorder_thread.deleting = outer;
}

KEEL_INLINE void free_next(void* block) {
    if (KEEL_LIKELY(!next_has_names)) {
        next.free(block);
    } else {
        free_with_names(block);
    }
}

static KEEL_NOINLINE void free_recorded(void* block, const void* caller) {
    if (!IS_INNER(free)) free_record(block, caller);
    free_next(block);
}

// If the allocator frees a block by name that is no sample, that is not recorded either.
void free(void* block) {
    if (sampled_maybe(block)) {
        free_recorded(block, __builtin_return_address(0));
    } else {
        next.free(block);
    }
}

// Records a free with a hint. During the call, recorder_thread.deleting contains the block, because
// the allocator may free it by name. Returns the previous recorder_thread.deleting, which the
// caller restores after the call.
static struct deleting hinted_free_record(void* block, uint64_t hint, const void* caller) {
    struct deleting outer = recorder_thread.deleting;
    if (!recording() || block == NULL) return outer;
    if ((block != outer.block || outer.hint != 0) && release_counts(block)) {
        uint64_t from = origin(caller);
        record(KL_RING_FREE, ticks(), block, hint, from);
    }
    recorder_thread.deleting = (struct deleting){block, 0};
    return outer;
}

// C23 functions. If the C library does not have them, they call free.
void free_sized(void* block, size_t size) {
    struct deleting outer = hinted_free_record(block, hint_size(size), __builtin_return_address(0));
    if (next.free_sized != NULL) {
        next.free_sized(block, size);
    } else {
        next.free(block);
    }
    recorder_thread.deleting = outer;
}

void free_aligned_sized(void* block, size_t align, size_t size) {
    uint64_t hint = hint_size(size) | hint_align(align);
    struct deleting outer = hinted_free_record(block, hint, __builtin_return_address(0));
    if (next.free_aligned_sized != NULL) {
        next.free_aligned_sized(block, align, size);
    } else {
        next.free(block);
    }
    recorder_thread.deleting = outer;
}

// SunOS's name for free. Only old programs use it.
void cfree(void* block) {
    free_recorded(block, __builtin_return_address(0));
}

static KEEL_NOINLINE void* calloc_recorded(size_t count, size_t size, const void* caller) {
    if (IS_INNER(calloc)) return next.calloc(count, size);
    struct before before = before_call();
    void* block = next_calloc(count, size);
    allocation_record(KL_RING_CALLOC, before, block, count * size, count * size, caller);
    return block;
}

static KEEL_NOINLINE void* calloc_passed(size_t count, size_t size, uint64_t left) {
    void* block = next_calloc(count, size);
    sampling_passed(left, count * size);
    return block;
}

void* calloc(size_t count, size_t size) {
    uint64_t left = sampling_left();
    return left > count * size ? calloc_passed(count, size, left)
                               : calloc_recorded(count, size, __builtin_return_address(0));
}

static void* realloc_from(void* block, size_t size, const void* caller) {
    struct before before = before_call();
    if (!before.on || IS_INNER(realloc)) return next.realloc(block, size);
    // A function that resizes the block has called realloc by name, and records the operation.
    if (block != NULL && block == recorder_thread.deleting.block) return next.realloc(block, size);
    // For the journal, a block that is no sample is none.
    if (block == NULL || !release_counts(block)) {
        void* created = next.realloc(block, size);
        allocation_record(KL_RING_REALLOC_NULL, before, created, size, size, caller);
        return created;
    }
    uint64_t from = origin(caller);
    record(KL_RING_REALLOC_BEGIN, ticks(), block, size, from);
    struct deleting outer = recorder_thread.deleting;
    recorder_thread.deleting = (struct deleting){block, 0}; // a free by name is not recorded
    before = before_call();
    void* moved = next.realloc(block, size);
    uint64_t took = slow_ticks(before);
    recorder_thread.deleting = outer;
    realloc_record_end(before, took, block, moved, size, size == 0, from);
    return moved;
}

void* realloc(void* block, size_t size) {
    return realloc_from(block, size, __builtin_return_address(0));
}

static __typeof__(next.realloc) program_realloc(void) {
    __typeof__(next.realloc) function = NULL;
    uintptr_t address = patches_function(NAME_INDEX_realloc);
    memcpy(&function, &address, sizeof function);
    return function;
}

// This call is not forwarded, because the next definition may call realloc by name, and the
// recorder would record that call again.
void* reallocarray(void* block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    // The C library calls realloc by name, and so the program's.
    if (IS_INNER(realloc)) return program_realloc()(block, bytes);
    return realloc_from(block, bytes, __builtin_return_address(0));
}

static void* aligned_recorded(struct before before, void* block, size_t align, size_t size,
                              const void* caller) {
    if (align < sizeof(void*)) align = sizeof(void*);
    size = size_before_rounding(size, align);
    uint64_t word = size_with_align(size, align);
    allocation_record(KL_RING_ALIGNED, before, block, size, word, caller);
    return block;
}

void* memalign(size_t align, size_t size) {
    if (IS_INNER(memalign)) return next.memalign(align, size);
    struct before first = before_call();
    return aligned_recorded(first, next.memalign(align, size), align, size,
                            __builtin_return_address(0));
}

int posix_memalign(void** block, size_t align, size_t size) {
    if (IS_INNER(posix_memalign)) return next.posix_memalign(block, align, size);
    struct before first = before_call();
    int error = next.posix_memalign(block, align, size);
    if (error == 0) aligned_recorded(first, *block, align, size, __builtin_return_address(0));
    return error;
}

void* aligned_alloc(size_t align, size_t size) {
    if (IS_INNER(aligned_alloc)) return next.aligned_alloc(align, size);
    struct before first = before_call();
    return aligned_recorded(first, next.aligned_alloc(align, size), align, size,
                            __builtin_return_address(0));
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void* valloc(size_t size) {
    if (IS_INNER(valloc)) return next.valloc(size);
    struct before first = before_call();
    return aligned_recorded(first, next.valloc(size), page_bytes(), size,
                            __builtin_return_address(0));
}

void* pvalloc(size_t size) {
    if (IS_INNER(pvalloc)) return next.pvalloc(size);
    struct before first = before_call();
    return aligned_recorded(first, next.pvalloc(size), page_bytes(), size,
                            __builtin_return_address(0));
}

/* keel_hooks.h: what the headers of this folder share.
 *
 * Each of them gives one library or engine the functions of Keel. `heap` is a heap from
 * kl_heap_new, from which then all blocks of the library come, so that it can be limited, measured
 * and freed as a whole; or NULL for the heaps of the threads, from which kl_malloc allocates. A
 * heap of its own takes a lock in each call (keel/heap.h). Link libkeel or libkeel_api.
 *
 * RECORDING. If the program is linked with a shared library of Keel, `keel record` sees the calls
 * of these functions. Each function stays in the call stacks, with the name of the library in its
 * own name, so that `keel blame` and the limits of `keel check` name the library:
 *
 *     [[within]]
 *     function = "keel_sqlite_malloc"
 *     live_peak = "4 MiB"
 */
#ifndef KEEL_HOOKS_H
#define KEEL_HOOKS_H

#include <keel/heap.h>
#include <stdint.h>

/* A hook is a function that a library calls. A program need not use all hooks of a header. */
#if defined(__GNUC__)
#define KEEL_HOOK static __attribute__((unused, noinline))
/* The call before is no tail call, so the function that contains it stays on the stack. */
#define KEEL_HOOK_STAYS __asm__ volatile("")
#else
#define KEEL_HOOK static inline
#define KEEL_HOOK_STAYS ((void)0)
#endif

#define KEEL_HOOK_RETURN(result)                                                                   \
    do {                                                                                           \
        void* result_of_hook = (result);                                                           \
        KEEL_HOOK_STAYS;                                                                           \
        return result_of_hook;                                                                     \
    } while (0)

static inline void* keel_hook_malloc(kl_heap_t* heap, size_t size) {
    return heap != NULL ? kl_heap_malloc(heap, size) : kl_malloc(size);
}
static inline void* keel_hook_calloc(kl_heap_t* heap, size_t count, size_t size) {
    return heap != NULL ? kl_heap_calloc(heap, count, size) : kl_calloc(count, size);
}
static inline void* keel_hook_realloc(kl_heap_t* heap, void* block, size_t size) {
    return heap != NULL ? kl_heap_realloc(heap, block, size) : kl_realloc(block, size);
}
/* An alignment of 0 or 1 requests nothing more than that of kl_malloc. */
static inline void* keel_hook_aligned_alloc(kl_heap_t* heap, size_t alignment, size_t size) {
    if (alignment <= 1) return keel_hook_malloc(heap, size);
    return heap != NULL ? kl_heap_aligned_alloc(heap, alignment, size)
                        : kl_aligned_alloc(alignment, size);
}
static inline void* keel_hook_aligned_realloc(kl_heap_t* heap, void* block, size_t alignment,
                                              size_t size) {
    if (alignment <= 1) return keel_hook_realloc(heap, block, size);
    return heap != NULL ? kl_heap_aligned_realloc(heap, block, alignment, size)
                        : kl_aligned_realloc(block, alignment, size);
}

#endif

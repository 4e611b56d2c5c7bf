/* Names that mimalloc 2 and 3 have added and for which Keel has a counterpart. Include
 * keel/mimalloc.h, not this header.
 *
 * Names without a counterpart in Keel are missing: sub-processes, mimalloc 3's theaps, sampled
 * guards, and options that would have no effect. A program that uses them does not compile. */
#ifndef KEEL_MIMALLOC_LATER_H
#define KEEL_MIMALLOC_LATER_H

#include "keel/arena.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include "keel/mimalloc-heaps.h"
#include "keel/mimalloc-options.h"
#include "keel/runtime.h"
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
#include "keel/new.hpp"
#include <cstddef>
#include <memory>
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the functions are also C */
#endif

/* --- Blocks ----------------------------------------------------------------------------------- */

/* In mimalloc the block has at most MI_SMALL_SIZE_MAX bytes. Keel accepts a block of any size. */
static inline void mi_free_small(void* block) KEEL_NOEXCEPT {
    kl_free(block);
}
static inline size_t mi_malloc_good_size(size_t size) KEEL_NOEXCEPT {
    return kl_good_size(size);
}

/* Resizes the block that *block_pointer points to. Returns 0, EINVAL or ENOMEM; after an error the
 * block is unchanged. */
static inline int mi_reallocarr(void* block_pointer, size_t count, size_t size) KEEL_NOEXCEPT {
    if (block_pointer == NULL) return EINVAL;
    void* block = NULL;
    memcpy(&block, block_pointer, sizeof block);
    block = kl_realloc(block, keel_mi_product(count, size));
    if (block == NULL) return ENOMEM;
    memcpy(block_pointer, &block, sizeof block);
    return 0;
}

/* These also store the usable size in *block_size, unless block_size is NULL. */
static inline KEEL_API_ROOMY void* mi_umalloc(size_t size, size_t* block_size) KEEL_NOEXCEPT {
    return kl_umalloc(size, block_size);
}
static inline KEEL_API_ROOMY void* mi_ucalloc(size_t count, size_t size,
                                              size_t* block_size) KEEL_NOEXCEPT {
    return kl_ucalloc(count, size, block_size);
}
static inline KEEL_API_ROOMY void* mi_urealloc(void* block, size_t size, size_t* block_size_before,
                                               size_t* block_size) KEEL_NOEXCEPT {
    return kl_urealloc(block, keel_mi_size(size), block_size_before, block_size);
}
static inline void mi_ufree(void* block, size_t* block_size) KEEL_NOEXCEPT {
    kl_ufree(block, block_size);
}

/* --- The process ------------------------------------------------------------------------------ */

/* Times are in milliseconds, sizes in bytes. Any pointer may be NULL. Committed memory is the
 * memory that Keel holds plus the unused memory that it has not yet returned. The page faults are
 * only those that read from a disk. Makes a few system calls. */
static inline void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                                   size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                                   size_t* peak_commit, size_t* page_faults) KEEL_NOEXCEPT {
    struct kl_process process;
    kl_process_info(&process);
    const size_t committed = (size_t)(process.held_bytes + process.unused_bytes);
    const size_t peak = (size_t)process.rss_peak_bytes;
    if (elapsed_msecs != NULL) *elapsed_msecs = (size_t)process.elapsed_ms;
    if (user_msecs != NULL) *user_msecs = (size_t)process.user_ms;
    if (system_msecs != NULL) *system_msecs = (size_t)process.system_ms;
    if (current_rss != NULL) *current_rss = (size_t)process.rss_bytes;
    if (peak_rss != NULL) *peak_rss = peak;
    if (current_commit != NULL) *current_commit = committed;
    if (peak_commit != NULL) *peak_commit = committed > peak ? committed : peak;
    if (page_faults != NULL) *page_faults = (size_t)process.major_faults;
}

/* Does nothing, because Keel treats the threads of a pool like all others. */
static inline void mi_thread_set_in_threadpool(void) KEEL_NOEXCEPT {}

/* --- Options ---------------------------------------------------------------------------------- */

#define mi_option_allow_large_os_pages mi_option_large_os_pages
#define mi_option_max_warnings mi_option_max_errors
#define mi_option_purge_delay mi_option_reset_delay
#define mi_option_decommit_delay mi_option_reset_delay
#define mi_option_purge_decommits mi_option_reset_decommits
#define mi_option_allow_decommit mi_option_reset_decommits
#define mi_option_arena_eager_commit mi_option_eager_region_commit

/* Returns the value, limited to `min` .. `max`. */
static inline long mi_option_get_clamp(mi_option_t option, long min, long max) KEEL_NOEXCEPT {
    const long value = kl_option_get((kl_option_t)option);
    return value < min ? min : value > max ? max : value;
}
static inline size_t mi_option_get_size(mi_option_t option) KEEL_NOEXCEPT {
    const long value = kl_option_get((kl_option_t)option);
    return value < 0 ? 0 : (size_t)value;
}

/* --- Arenas ----------------------------------------------------------------------------------- */

typedef kl_arena_t* mi_arena_id_t;

static inline bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed,
                                          bool is_pinned, bool is_zero, int numa_node,
                                          bool exclusive, mi_arena_id_t* arena) KEEL_NOEXCEPT {
    const unsigned flags = (is_zero ? (unsigned)kl_memory_zero : 0u) |
                           (is_committed ? 0u : (unsigned)kl_memory_closed) |
                           (is_committed && is_pinned ? (unsigned)kl_memory_populated : 0u) |
                           (exclusive ? (unsigned)kl_memory_exclusive : 0u);
    kl_arena_t* created = kl_manage_os_memory(start, size, flags, numa_node);
    if (arena != NULL) *arena = created;
    return created != NULL;
}
static inline bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                       bool is_zero, int numa_node) KEEL_NOEXCEPT {
    return mi_manage_os_memory_ex(start, size, is_committed, is_pinned, is_zero, numa_node, false,
                                  NULL);
}

/* Returns 0 or ENOMEM. */
static inline int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large,
                                          bool exclusive, mi_arena_id_t* arena) KEEL_NOEXCEPT {
    const unsigned flags = (commit ? (unsigned)kl_memory_populated : 0u) |
                           (allow_large ? (unsigned)kl_memory_large_pages : 0u) |
                           (exclusive ? (unsigned)kl_memory_exclusive : 0u);
    kl_arena_t* created = kl_reserve_os_memory(size, flags);
    if (arena != NULL) *arena = created;
    return created != NULL ? 0 : ENOMEM;
}
static inline int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) KEEL_NOEXCEPT {
    return mi_reserve_os_memory_ex(size, commit, allow_large, false, NULL);
}

/* Returns the start of the arena and stores its size. */
static inline void* mi_arena_area(mi_arena_id_t arena, size_t* size) KEEL_NOEXCEPT {
    struct kl_arena_state info = {NULL, 0, 0, 0, KL_ANY_NUMA_NODE, false};
    if (arena != NULL) kl_arena_info(arena, &info);
    if (size != NULL) *size = info.bytes;
    return info.start;
}
static inline bool mi_arena_contains(mi_arena_id_t arena, const void* address) KEEL_NOEXCEPT {
    size_t size = 0;
    const char* start = (const char*)mi_arena_area(arena, &size);
    return (const char*)address >= start && (size_t)((const char*)address - start) < size;
}
/* As in mimalloc, NULL is no arena in particular. */
static inline mi_heap_t* mi_heap_new_in_arena(mi_arena_id_t arena) KEEL_NOEXCEPT {
    return arena == NULL ? mi_heap_new() : (mi_heap_t*)kl_heap_new_in_arena(arena);
}

/* --- Heaps ------------------------------------------------------------------------------------ */

static inline KEEL_API_ALLOCATES(2) void* mi_heap_zalloc_small(mi_heap_t* heap,
                                                               size_t size) KEEL_NOEXCEPT {
    return kl_heap_zalloc(keel_mi_heap(heap), size);
}

#ifdef __cplusplus

/* Like operator new, from the heap. */
static inline void* mi_heap_alloc_new(mi_heap_t* heap, size_t size) {
    return keel::new_or_throw(keel_mi_heap(heap), size, alignof(std::max_align_t));
}
static inline void* mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size) {
    return mi_heap_alloc_new(heap, keel::array_bytes(count, size));
}

/* The common part of the two allocators below. The constructor without a heap creates one, which
 * ends with the last copy of the allocator. If Destroy is true, the heap's blocks end with it, so
 * deallocate does nothing. If Destroy is false, the program frees the blocks one by one. */
template <typename T, bool Destroy> struct keel_mi_heap_allocator {
    typedef T value_type;
    typedef std::size_t size_type;
    typedef std::ptrdiff_t difference_type;
    typedef T* pointer;
    typedef std::false_type is_always_equal;
    typedef std::true_type propagate_on_container_copy_assignment;
    typedef std::true_type propagate_on_container_move_assignment;
    typedef std::true_type propagate_on_container_swap;

    keel_mi_heap_allocator() : heap(mi_heap_new(), Destroy ? mi_heap_destroy : mi_heap_delete) {
        if (heap == nullptr) keel::detail::throw_bad_alloc();
    }
    keel_mi_heap_allocator(mi_heap_t* of) : heap(of, [](mi_heap_t*) {}) {}
    template <typename U>
    keel_mi_heap_allocator(const keel_mi_heap_allocator<U, Destroy>& other) noexcept
        : heap(other.heap) {}

    T* allocate(size_type count, const void* = nullptr) {
        return static_cast<T*>(keel::new_or_throw(keel_mi_heap(heap.get()),
                                                  keel::array_bytes(count, sizeof(T)), alignof(T)));
    }
    void deallocate(T* block, size_type) noexcept {
        if (!Destroy) kl_free(block);
    }
    void collect(bool force) { mi_heap_collect(heap.get(), force); }
    template <typename U>
    bool is_equal(const keel_mi_heap_allocator<U, Destroy>& other) const noexcept {
        return heap == other.heap;
    }

    std::shared_ptr<mi_heap_t> heap;
};

/* For containers in a heap of their own or in a given heap. */
template <typename T> struct mi_heap_stl_allocator : keel_mi_heap_allocator<T, false> {
    using keel_mi_heap_allocator<T, false>::keel_mi_heap_allocator;
    mi_heap_stl_allocator() = default;
    template <typename U>
    mi_heap_stl_allocator(const mi_heap_stl_allocator<U>& other) noexcept
        : keel_mi_heap_allocator<T, false>(other) {}
    template <typename U> struct rebind { typedef mi_heap_stl_allocator<U> other; };
};

/* The same, but all blocks are freed when the container's own heap ends. */
template <typename T> struct mi_heap_destroy_stl_allocator : keel_mi_heap_allocator<T, true> {
    using keel_mi_heap_allocator<T, true>::keel_mi_heap_allocator;
    mi_heap_destroy_stl_allocator() = default;
    template <typename U>
    mi_heap_destroy_stl_allocator(const mi_heap_destroy_stl_allocator<U>& other) noexcept
        : keel_mi_heap_allocator<T, true>(other) {}
    template <typename U> struct rebind { typedef mi_heap_destroy_stl_allocator<U> other; };
};

template <typename T, typename U, bool Destroy>
bool operator==(const keel_mi_heap_allocator<T, Destroy>& a,
                const keel_mi_heap_allocator<U, Destroy>& b) noexcept {
    return a.is_equal(b);
}
template <typename T, typename U, bool Destroy>
bool operator!=(const keel_mi_heap_allocator<T, Destroy>& a,
                const keel_mi_heap_allocator<U, Destroy>& b) noexcept {
    return !a.is_equal(b);
}

#else

static inline void* mi_heap_alloc_new(mi_heap_t* heap, size_t size) {
    return keel_mi_or_end(kl_heap_malloc(keel_mi_heap(heap), size));
}
static inline void* mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size) {
    return keel_mi_or_end(kl_heap_mallocn(keel_mi_heap(heap), count, size));
}

#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif

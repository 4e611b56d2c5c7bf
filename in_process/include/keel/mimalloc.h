/* Every name of mimalloc 1.6.3, implemented with Keel, for programs written for mimalloc.
 *
 *     cc -I PREFIX/include -I PREFIX/include/keel/mimalloc program.c ...
 *
 * finds this header as <mimalloc.h>, in C11 and C++11 and later. Link libkeel or libkeel_api.
 * docs/reference/mimalloc-names.md lists how Keel implements each name. There are differences,
 * which do not affect a correct program:
 *
 *   - Any thread may use a heap, not only the thread that created it.
 *   - Options for which Keel has no counterpart keep their values and have no effect
 *     (keel/mimalloc-options.h marks them).
 *   - The statistics are those of Keel, which have other rows and other labels.
 *
 * keel/mimalloc-later.h, which this header includes, has names of mimalloc 2 and 3 for which Keel
 * has a counterpart. All functions are inline. Code that does not include this header can link
 * libkeel_mimalloc.a, which defines the functions as symbols. Errors, thread safety and costs are
 * those of the functions in keel/keel.h, keel/heap.h, keel/arena.h and keel/runtime.h that they
 * call. */
#ifndef KEEL_MIMALLOC_H
#define KEEL_MIMALLOC_H

#include "keel/arena.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include "keel/mimalloc-heaps.h"
#include "keel/mimalloc-options.h"
#include "keel/runtime.h"
#include "keel/statistics.h"
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include "keel/new.hpp"
#include <type_traits>
#include <utility>
#endif

/* The version of mimalloc that has these names. kl_version returns Keel's own version. */
#define MI_MALLOC_VERSION 163

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the functions are also C */
#endif

/* --- Attributes in mimalloc's declarations ---------------------------------------------------- */

#define mi_attr_noexcept KEEL_NOEXCEPT
#define mi_cdecl
#define mi_decl_export
#define mi_decl_restrict
#define mi_decl_nodiscard __attribute__((warn_unused_result))
#define mi_attr_malloc __attribute__((malloc))
#define mi_attr_alloc_size(argument) __attribute__((alloc_size(argument)))
#define mi_attr_alloc_size2(first, second) __attribute__((alloc_size(first, second)))
#define mi_attr_alloc_align(argument) __attribute__((alloc_align(argument)))

/* --- Standard --------------------------------------------------------------------------------- */

static inline KEEL_API_ALLOCATES(1) void* mi_malloc(size_t size) KEEL_NOEXCEPT {
    return kl_malloc(size);
}
static inline KEEL_API_ALLOCATES(1, 2) void* mi_calloc(size_t count, size_t size) KEEL_NOEXCEPT {
    return kl_calloc(count, size);
}
static inline KEEL_API_RESIZES(2) void* mi_realloc(void* block, size_t size) KEEL_NOEXCEPT {
    return kl_realloc(block, keel_mi_size(size));
}
static inline void* mi_expand(void* block, size_t size) KEEL_NOEXCEPT {
    return kl_expand(block, size);
}
static inline void mi_free(void* block) KEEL_NOEXCEPT {
    kl_free(block);
}
static inline char* mi_strdup(const char* string) KEEL_NOEXCEPT {
    return kl_strdup(string);
}
static inline char* mi_strndup(const char* string, size_t length) KEEL_NOEXCEPT {
    return kl_strndup(string, length);
}
static inline char* mi_realpath(const char* path, char* resolved) KEEL_NOEXCEPT {
    return kl_realpath(path, resolved);
}

/* --- Extended --------------------------------------------------------------------------------- */

#define MI_SMALL_WSIZE_MAX (128)
#define MI_SMALL_SIZE_MAX (MI_SMALL_WSIZE_MAX * sizeof(void*))

static inline KEEL_API_ALLOCATES(1) void* mi_malloc_small(size_t size) KEEL_NOEXCEPT {
    return kl_malloc(size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_zalloc_small(size_t size) KEEL_NOEXCEPT {
    return kl_zalloc(size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_zalloc(size_t size) KEEL_NOEXCEPT {
    return kl_zalloc(size);
}
static inline KEEL_API_ALLOCATES(1, 2) void* mi_mallocn(size_t count, size_t size) KEEL_NOEXCEPT {
    return kl_mallocn(count, size);
}
static inline KEEL_API_RESIZES(2, 3) void* mi_reallocn(void* block, size_t count,
                                                       size_t size) KEEL_NOEXCEPT {
    return kl_realloc(block, keel_mi_product(count, size));
}
static inline KEEL_API_RESIZES(2) void* mi_reallocf(void* block, size_t size) KEEL_NOEXCEPT {
    return kl_reallocf(block, keel_mi_size(size));
}
static inline size_t mi_usable_size(const void* block) KEEL_NOEXCEPT {
    return kl_usable_size(block);
}
static inline size_t mi_good_size(size_t size) KEEL_NOEXCEPT {
    return kl_good_size(size);
}

/* --- The allocator ---------------------------------------------------------------------------- */

typedef kl_deferred_free mi_deferred_free_fun;
typedef kl_output mi_output_fun;
typedef kl_error_handler mi_error_fun;

static inline void mi_register_deferred_free(mi_deferred_free_fun* handler,
                                             void* argument) KEEL_NOEXCEPT {
    kl_register_deferred_free(handler, argument);
}
static inline void mi_register_output(mi_output_fun* output, void* argument) KEEL_NOEXCEPT {
    kl_register_output(output, argument);
}
static inline void mi_register_error(mi_error_fun* handler, void* argument) KEEL_NOEXCEPT {
    kl_register_error(handler, argument);
}
static inline void mi_collect(bool force) KEEL_NOEXCEPT {
    kl_collect(force);
}

/* Returns MI_MALLOC_VERSION, because programs compare the two. */
static inline int mi_version(void) KEEL_NOEXCEPT {
    return MI_MALLOC_VERSION;
}

static inline void mi_process_init(void) KEEL_NOEXCEPT {
    kl_process_init();
}
static inline void mi_thread_init(void) KEEL_NOEXCEPT {
    (void)kl_thread_init();
}
static inline void mi_thread_done(void) KEEL_NOEXCEPT {
    kl_thread_done();
}

static inline bool mi_is_in_heap_region(const void* block) KEEL_NOEXCEPT {
    return kl_contains(block);
}

/* Only of use on Windows. */
static inline bool mi_is_redirected(void) KEEL_NOEXCEPT {
    return false;
}

/* --- Statistics ------------------------------------------------------------------------------- */

static inline void mi_stats_reset(void) KEEL_NOEXCEPT {
    kl_stats_reset();
}

/* Does nothing, because statistics are read directly from each thread's counters. */
static inline void mi_stats_merge(void) KEEL_NOEXCEPT {}

static inline void mi_stats_print(void* unused) KEEL_NOEXCEPT {
    (void)unused;
    kl_stats_print(NULL, NULL);
}

static inline void mi_stats_print_out(mi_output_fun* output, void* argument) KEEL_NOEXCEPT {
    kl_stats_print(output, argument);
}
static inline void mi_thread_stats_print_out(mi_output_fun* output, void* argument) KEEL_NOEXCEPT {
    kl_thread_stats_print(output, argument);
}

/* --- Aligned ---------------------------------------------------------------------------------- */

static inline KEEL_API_ALLOCATES(1) void* mi_malloc_aligned(size_t size,
                                                            size_t alignment) KEEL_NOEXCEPT {
    return kl_aligned_alloc(alignment, size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_malloc_aligned_at(size_t size, size_t alignment,
                                                               size_t offset) KEEL_NOEXCEPT {
    return kl_aligned_alloc_at(alignment, offset, size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_zalloc_aligned(size_t size,
                                                            size_t alignment) KEEL_NOEXCEPT {
    return kl_aligned_calloc(alignment, 1, size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_zalloc_aligned_at(size_t size, size_t alignment,
                                                               size_t offset) KEEL_NOEXCEPT {
    return kl_aligned_calloc_at(alignment, offset, 1, size);
}
static inline KEEL_API_ALLOCATES(1, 2) void* mi_calloc_aligned(size_t count, size_t size,
                                                               size_t alignment) KEEL_NOEXCEPT {
    return kl_aligned_calloc(alignment, count, size);
}
static inline KEEL_API_ALLOCATES(1, 2) void* mi_calloc_aligned_at(size_t count, size_t size,
                                                                  size_t alignment,
                                                                  size_t offset) KEEL_NOEXCEPT {
    return kl_aligned_calloc_at(alignment, offset, count, size);
}
static inline KEEL_API_RESIZES(2) void* mi_realloc_aligned(void* block, size_t size,
                                                           size_t alignment) KEEL_NOEXCEPT {
    return kl_aligned_realloc(block, alignment, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(2) void* mi_realloc_aligned_at(void* block, size_t size,
                                                              size_t alignment,
                                                              size_t offset) KEEL_NOEXCEPT {
    return kl_aligned_realloc_at(block, alignment, offset, keel_mi_size(size));
}

/* --- Resize and zero the new bytes ------------------------------------------------------------ */

static inline KEEL_API_RESIZES(2) void* mi_rezalloc(void* block, size_t size) KEEL_NOEXCEPT {
    return kl_rezalloc(block, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(2, 3) void* mi_recalloc(void* block, size_t count,
                                                       size_t size) KEEL_NOEXCEPT {
    return kl_rezalloc(block, keel_mi_product(count, size));
}
static inline KEEL_API_RESIZES(2) void* mi_rezalloc_aligned(void* block, size_t size,
                                                            size_t alignment) KEEL_NOEXCEPT {
    return kl_aligned_rezalloc(block, alignment, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(2) void* mi_rezalloc_aligned_at(void* block, size_t size,
                                                               size_t alignment,
                                                               size_t offset) KEEL_NOEXCEPT {
    return kl_aligned_rezalloc_at(block, alignment, offset, keel_mi_size(size));
}
static inline KEEL_API_RESIZES(2, 3) void* mi_recalloc_aligned(void* block, size_t count,
                                                               size_t size,
                                                               size_t alignment) KEEL_NOEXCEPT {
    return kl_aligned_rezalloc(block, alignment, keel_mi_product(count, size));
}
static inline KEEL_API_RESIZES(2, 3) void* mi_recalloc_aligned_at(void* block, size_t count,
                                                                  size_t size, size_t alignment,
                                                                  size_t offset) KEEL_NOEXCEPT {
    return kl_aligned_rezalloc_at(block, alignment, offset, keel_mi_product(count, size));
}

/* --- Huge OS pages ---------------------------------------------------------------------------- */

static inline int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                      size_t timeout_msecs) KEEL_NOEXCEPT {
    return kl_reserve_huge_os_pages_interleave(pages, numa_nodes, timeout_msecs);
}
static inline int mi_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                              size_t timeout_msecs) KEEL_NOEXCEPT {
    return kl_reserve_huge_os_pages_at(pages, numa_node, timeout_msecs);
}

/* The old form of the function. It reports either all pages or none. */
static inline int mi_reserve_huge_os_pages(size_t pages, double max_secs,
                                           size_t* pages_reserved) KEEL_NOEXCEPT {
    int error = kl_reserve_huge_os_pages_interleave(pages, 0, (size_t)(max_secs * 1000.0));
    if (pages_reserved != NULL) *pages_reserved = error == 0 ? pages : 0;
    return error;
}

/* --- By type ---------------------------------------------------------------------------------- */

#define mi_malloc_tp(type) KEEL_API_AS(type, mi_malloc(sizeof(type)))
#define mi_zalloc_tp(type) KEEL_API_AS(type, mi_zalloc(sizeof(type)))
#define mi_calloc_tp(type, count) KEEL_API_AS(type, mi_calloc(count, sizeof(type)))
#define mi_mallocn_tp(type, count) KEEL_API_AS(type, mi_mallocn(count, sizeof(type)))
#define mi_reallocn_tp(block, type, count)                                                         \
    KEEL_API_AS(type, mi_reallocn(block, count, sizeof(type)))
#define mi_recalloc_tp(block, type, count)                                                         \
    KEEL_API_AS(type, mi_recalloc(block, count, sizeof(type)))

/* --- Names of POSIX, BSD and Windows ---------------------------------------------------------- */

/* Frees a block of Keel and ignores a foreign one. */
static inline void mi_cfree(void* block) KEEL_NOEXCEPT {
    if (kl_contains(block)) kl_free(block);
}

static inline void* mi__expand(void* block, size_t size) KEEL_NOEXCEPT {
    void* same = kl_expand(block, size);
    if (same == NULL) errno = ENOMEM;
    return same;
}
static inline size_t mi_malloc_size(const void* block) KEEL_NOEXCEPT {
    return kl_usable_size(block);
}
static inline size_t mi_malloc_usable_size(const void* block) KEEL_NOEXCEPT {
    return kl_usable_size(block);
}
static inline int mi_posix_memalign(void** block, size_t alignment, size_t size) KEEL_NOEXCEPT {
    return block == NULL ? EINVAL : kl_posix_memalign(block, alignment, size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_memalign(size_t alignment, size_t size) KEEL_NOEXCEPT {
    return kl_memalign(alignment, size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_valloc(size_t size) KEEL_NOEXCEPT {
    return kl_valloc(size);
}
static inline KEEL_API_ALLOCATES(1) void* mi_pvalloc(size_t size) KEEL_NOEXCEPT {
    return kl_pvalloc(size);
}
static inline KEEL_API_ALLOCATES(2) void* mi_aligned_alloc(size_t alignment,
                                                           size_t size) KEEL_NOEXCEPT {
    return kl_aligned_alloc(alignment, size);
}
static inline KEEL_API_RESIZES(2, 3) void* mi_reallocarray(void* block, size_t count,
                                                           size_t size) KEEL_NOEXCEPT {
    return mi_reallocn(block, count, size);
}
static inline KEEL_API_RESIZES(2, 3) void* mi_aligned_recalloc(void* block, size_t count,
                                                               size_t size,
                                                               size_t alignment) KEEL_NOEXCEPT {
    return mi_recalloc_aligned(block, count, size, alignment);
}
static inline KEEL_API_RESIZES(2, 3) void* mi_aligned_offset_recalloc(void* block, size_t count,
                                                                      size_t size, size_t alignment,
                                                                      size_t offset) KEEL_NOEXCEPT {
    return mi_recalloc_aligned_at(block, count, size, alignment, offset);
}

/* For strings of 16-bit characters. */
static inline unsigned short* mi_wcsdup(const unsigned short* string) KEEL_NOEXCEPT {
    if (string == NULL) return NULL;
    size_t length = 0;
    while (string[length] != 0) length++;
    const size_t bytes = (length + 1) * sizeof *string;
    unsigned short* copy = (unsigned short*)kl_malloc(bytes);
    if (copy != NULL) memcpy(copy, string, bytes);
    return copy;
}

static inline unsigned char* mi_mbsdup(const unsigned char* string) KEEL_NOEXCEPT {
    return (unsigned char*)kl_strdup((const char*)string);
}

/* Copies an environment variable, or stores NULL if it is not set. Returns 0, EINVAL or ENOMEM. */
static inline int mi_dupenv_s(char** copy, size_t* length, const char* name) KEEL_NOEXCEPT {
    if (copy == NULL || name == NULL) return EINVAL;
    if (length != NULL) *length = 0;
    const char* value = getenv(name);
    *copy = kl_strdup(value);
    if (value != NULL && *copy == NULL) return ENOMEM;
    if (value != NULL && length != NULL) *length = strlen(value);
    return 0;
}

/* For Windows: returns EINVAL, as mimalloc does on other systems. */
static inline int mi_wdupenv_s(unsigned short** copy, size_t* length,
                               const unsigned short* name) KEEL_NOEXCEPT {
    (void)name;
    if (copy != NULL) *copy = NULL;
    if (length != NULL) *length = 0;
    return EINVAL;
}

static inline void mi_free_size(void* block, size_t size) KEEL_NOEXCEPT {
    kl_free_sized(block, size);
}
static inline void mi_free_size_aligned(void* block, size_t size, size_t alignment) KEEL_NOEXCEPT {
    kl_free_aligned_sized(block, alignment, size);
}
static inline void mi_free_aligned(void* block, size_t alignment) KEEL_NOEXCEPT {
    (void)alignment;
    kl_free(block);
}

/* --- As operator new -------------------------------------------------------------------------- */

/* If there is no memory, these functions use the new_handler and std::bad_alloc in C++. In C they
 * end the process. */
#ifdef __cplusplus

static inline void* mi_new(size_t size) {
    return keel::new_or_throw(size);
}
static inline void* mi_new_aligned(size_t size, size_t alignment) {
    return keel::new_or_throw(size, alignment);
}
static inline void* mi_new_nothrow(size_t size) KEEL_NOEXCEPT {
    return keel::new_or_null(size);
}
static inline void* mi_new_aligned_nothrow(size_t size, size_t alignment) KEEL_NOEXCEPT {
    return keel::new_or_null(size, alignment);
}
static inline void* mi_new_n(size_t count, size_t size) {
    return keel::new_or_throw(keel::array_bytes(count, size));
}
static inline void* mi_new_realloc(void* block, size_t size) {
    return keel::renew_or_throw(block, size);
}
static inline void* mi_new_reallocn(void* block, size_t count, size_t size) {
    return keel::renew_or_throw(block, keel::array_bytes(count, size));
}

#else

static inline void* mi_new(size_t size) {
    return keel_mi_or_end(kl_malloc(size));
}
static inline void* mi_new_aligned(size_t size, size_t alignment) {
    return keel_mi_or_end(kl_aligned_alloc(alignment, size));
}
static inline void* mi_new_nothrow(size_t size) {
    return kl_malloc(size);
}
static inline void* mi_new_aligned_nothrow(size_t size, size_t alignment) {
    return kl_aligned_alloc(alignment, size);
}
static inline void* mi_new_n(size_t count, size_t size) {
    return keel_mi_or_end(kl_mallocn(count, size));
}
static inline void* mi_new_realloc(void* block, size_t size) {
    return keel_mi_or_end(mi_realloc(block, size));
}
static inline void* mi_new_reallocn(void* block, size_t count, size_t size) {
    return keel_mi_or_end(mi_reallocn(block, count, size));
}

#endif

/* --- Containers ------------------------------------------------------------------------------- */

#ifdef __cplusplus

/* A stateless standard allocator for element types of any alignment. */
template <typename T> struct mi_stl_allocator {
    typedef T value_type;
    typedef std::size_t size_type;
    typedef std::ptrdiff_t difference_type;
    typedef T& reference;
    typedef const T& const_reference;
    typedef T* pointer;
    typedef const T* const_pointer;
    typedef std::true_type propagate_on_container_copy_assignment;
    typedef std::true_type propagate_on_container_move_assignment;
    typedef std::true_type propagate_on_container_swap;
    typedef std::true_type is_always_equal;
    template <typename U> struct rebind { typedef mi_stl_allocator<U> other; };

    mi_stl_allocator() noexcept = default;
    mi_stl_allocator(const mi_stl_allocator&) noexcept = default;
    mi_stl_allocator& operator=(const mi_stl_allocator&) noexcept = default;
    template <typename U> mi_stl_allocator(const mi_stl_allocator<U>&) noexcept {}
    mi_stl_allocator select_on_container_copy_construction() const { return *this; }

    T* allocate(size_type count, const void* = nullptr) {
        return static_cast<T*>(keel::new_or_throw(keel::array_bytes(count, sizeof(T)), alignof(T)));
    }
    void deallocate(T* block, size_type count) noexcept {
        kl_free_aligned_sized(block, alignof(T), count * sizeof(T));
    }

    template <typename U, typename... Arguments>
    void construct(U* place, Arguments&&... arguments) {
        ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
    }
    template <typename U> void destroy(U* object) noexcept { object->~U(); }
    size_type max_size() const noexcept { return static_cast<size_type>(PTRDIFF_MAX) / sizeof(T); }
    pointer address(reference object) const { return &object; }
    const_pointer address(const_reference object) const { return &object; }
};

template <typename T, typename U>
bool operator==(const mi_stl_allocator<T>&, const mi_stl_allocator<U>&) noexcept {
    return true;
}
template <typename T, typename U>
bool operator!=(const mi_stl_allocator<T>&, const mi_stl_allocator<U>&) noexcept {
    return false;
}

#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include "keel/mimalloc-later.h"

#endif

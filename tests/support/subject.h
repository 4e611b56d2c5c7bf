/*
 * subject.h: selects the malloc that a contract test calls. Include it last.
 *
 * Normally it is the malloc of the process (linked or preloaded). With SUBJECT_API=1 the calls go
 * to Keel's own names, for programs whose `malloc` belongs to a sanitizer; the sanitizer then
 * checks Keel's code.
 */
#ifndef KEEL_TESTS_SUBJECT_H
#define KEEL_TESTS_SUBJECT_H

#include <malloc.h>
#include <stdlib.h>

#ifndef SUBJECT_API
#define SUBJECT_API 0
#endif

#ifdef __SANITIZE_THREAD__
#define SUBJECT_UNDER_TSAN 1
#else
#define SUBJECT_UNDER_TSAN 0
#endif
// In the child of a process with threads, TSan cannot start threads, and under ASan a thread may
// wait for a lock of ASan's allocator that is held by a thread that the child does not have.
#if SUBJECT_UNDER_TSAN || defined(__SANITIZE_ADDRESS__)
#define SUBJECT_CHILD_STARTS_NO_THREADS 1
#else
#define SUBJECT_CHILD_STARTS_NO_THREADS 0
#endif

#if SUBJECT_API
#include <keel/keel.h>
#include <stdint.h>

// As override/override.c defines them.
static inline void* subject_valloc(size_t size) {
    return kl_aligned_alloc(4096, size);
}
static inline void* subject_pvalloc(size_t size) {
    size_t rounded = size > SIZE_MAX - 4096 ? SIZE_MAX
                     : size == 0            ? 4096
                                            : (size + 4095) & ~(size_t)4095;
    return kl_aligned_alloc(4096, rounded);
}

#define malloc kl_malloc
#define calloc kl_calloc
#define realloc kl_realloc
#define reallocarray kl_reallocn
#define free kl_free
#define posix_memalign kl_posix_memalign
#define aligned_alloc kl_aligned_alloc
#define memalign kl_aligned_alloc
#define valloc subject_valloc
#define pvalloc subject_pvalloc
#define malloc_usable_size kl_usable_size

#elif defined(_WIN32)
#include <keel/keel.h>

// The C runtimes of Windows have the others of malloc.h under other names, and with other orders of
// arguments: tests/windows/family.c.
#define reallocarray kl_reallocn
#define posix_memalign kl_posix_memalign
#define aligned_alloc kl_aligned_alloc
#define memalign kl_memalign
#define valloc kl_valloc
#define pvalloc kl_pvalloc
#define malloc_usable_size(block) ((block) == NULL ? 0 : _msize(block)) // NULL is a fault there

#elif !defined(__GLIBC__)
#include <stdint.h>

// Other C libraries have no pvalloc of their own. Keel has.
extern void* pvalloc(size_t size) __attribute__((weak));
static inline void* subject_pvalloc(size_t size) {
    if (pvalloc != NULL) return pvalloc(size);
    if (size > SIZE_MAX - 4096) return valloc(size);
    return valloc(size == 0 ? 4096 : (size + 4095) & ~(size_t)4095);
}
#define pvalloc subject_pvalloc
#endif

#endif

/*
 * subject.h: which malloc a test of the contract speaks to. Include it last.
 *
 * Normally the one of the process (linked, or preloaded). With SUBJECT_API=1 the same calls go to
 * Keel's own names, for programs whose `malloc` belongs to a sanitizer: then it is Keel's code that
 * the sanitizer watches.
 */
#ifndef KEEL_TESTS_SUBJECT_H
#define KEEL_TESTS_SUBJECT_H

#include <malloc.h>
#include <stdlib.h>

#ifndef SUBJECT_API
#define SUBJECT_API 0
#endif

#if SUBJECT_API
#include <keel/keel.h>
#define malloc kl_malloc
#define calloc kl_calloc
#define realloc kl_realloc
#define reallocarray kl_reallocarray
#define free kl_free
#define posix_memalign kl_posix_memalign
#define aligned_alloc kl_aligned_alloc
#define memalign kl_memalign
#define valloc kl_valloc
#define pvalloc kl_pvalloc
#define malloc_usable_size kl_malloc_usable_size
#endif

#endif

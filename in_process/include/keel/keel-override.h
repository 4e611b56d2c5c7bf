/* Macros that replace the malloc family by Keel's functions in source files that include this
 * header.
 *
 * They are for programs that link libkeel_api and cannot replace malloc at link time. Include this
 * header after all others, or with the compiler's option -include.
 *
 *   - The macros replace only calls. A name without an argument list, for example in a table of
 *     functions, still denotes libc's function.
 *   - If a file that allocates a block includes this header, every file that frees the block must
 *     include it too.
 *   - Some functions of libc allocate blocks (getline, asprintf, scandir). These blocks belong to
 *     libc's malloc. Keel ignores a free of such a block, so the block leaks. If this matters, link
 *     libkeel, which replaces malloc.
 *   - In C++, write malloc, not std::malloc. For new and delete, see keel/keel-new-delete.h.
 */
#ifndef KEEL_OVERRIDE_H
#define KEEL_OVERRIDE_H

/* Include these headers before the names become macros. */
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <malloc.h>
#endif

#include "keel/keel.h"

/* --- Standard C ------------------------------------------------------------------------------- */

#define malloc(size) kl_malloc(size)
#define calloc(count, size) kl_calloc(count, size)
#define realloc(block, size) kl_realloc(block, size)
#define free(block) kl_free(block)
#define aligned_alloc(alignment, size) kl_memalign(alignment, size)
#define free_sized(block, size) kl_free_sized(block, size)
#define free_aligned_sized(block, alignment, size) kl_free_aligned_sized(block, alignment, size)

/* --- POSIX, BSD and GNU ----------------------------------------------------------------------- */

#define strdup(string) kl_strdup(string)
#define strndup(string, length) kl_strndup(string, length)
#define realpath(path, resolved) kl_realpath(path, resolved)
#define posix_memalign(block, alignment, size) kl_posix_memalign(block, alignment, size)
#define memalign(alignment, size) kl_memalign(alignment, size)
#define valloc(size) kl_valloc(size)
#define pvalloc(size) kl_pvalloc(size)
#define reallocarray(block, count, size) kl_reallocarray(block, count, size)
#define reallocf(block, size) kl_reallocf(block, size)
#define malloc_usable_size(block) kl_malloc_usable_size(block)
#define malloc_size(block) kl_usable_size(block)
#define malloc_good_size(size) kl_good_size(size)
#define cfree(block) kl_free(block)

#endif

/* Makes the malloc family Keel's in the source files that include it, by macros: for programs that link libkeel_api and
 * cannot replace malloc at link time. Include it last, or by the compiler's -include.
 *
 * Calls become Keel's; a name without an argument list, as in a table of functions, stays libc's. Every file that frees
 * a block must see this header if the one that allocated it did. Blocks that libc allocates by itself (getline,
 * asprintf, scandir) are libc's: a free of theirs is ignored here, so they leak; let libkeel replace malloc where that
 * matters. In C++, write malloc and not std::malloc, and see keel/keel-new-delete.h for new and delete. */
#ifndef KEEL_OVERRIDE_H
#define KEEL_OVERRIDE_H

/* Declared before their names are macros. */
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <malloc.h>
#endif

#include "keel/keel.h"

/* --- Standard C -------------------------------------------------------------------------------- */

#define malloc(size) kl_malloc(size)
#define calloc(count, size) kl_calloc(count, size)
#define realloc(block, size) kl_realloc(block, size)
#define free(block) kl_free(block)
#define aligned_alloc(alignment, size) kl_memalign(alignment, size)
#define free_sized(block, size) kl_free_sized(block, size)
#define free_aligned_sized(block, alignment, size) kl_free_aligned_sized(block, alignment, size)

/* --- POSIX, BSD and GNU ------------------------------------------------------------------------ */

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

/* For `#include <mimalloc-override.h>`: keel/keel-override.h and the names of Windows. */
#ifndef KEEL_MIMALLOC_OVERRIDE_H
#define KEEL_MIMALLOC_OVERRIDE_H

#include "keel/keel-override.h"
#include "keel/mimalloc.h"

/* In mimalloc, resizing to 0 bytes returns a block. */
#undef realloc
#undef reallocf
#undef reallocarray
#define realloc(block, size) mi_realloc(block, size)
#define reallocf(block, size) mi_reallocf(block, size)
#define reallocarray(block, count, size) mi_reallocarray(block, count, size)

#define _expand(block, size) mi_expand(block, size)
#define _msize(block) mi_usable_size(block)
#define _recalloc(block, count, size) mi_recalloc(block, count, size)
#define _strdup(string) mi_strdup(string)
#define _strndup(string, length) mi_strndup(string, length)
#define _wcsdup(string) (wchar_t*)mi_wcsdup((const unsigned short*)(string))
#define _mbsdup(string) mi_mbsdup(string)
#define _dupenv_s(copy, length, name) mi_dupenv_s(copy, length, name)
#define _wdupenv_s(copy, length, name)                                                             \
    mi_wdupenv_s((unsigned short**)(copy), length, (const unsigned short*)(name))
#define _posix_memalign(block, alignment, size) mi_posix_memalign(block, alignment, size)

#define _aligned_malloc(size, alignment) mi_malloc_aligned(size, alignment)
#define _aligned_realloc(block, size, alignment) mi_realloc_aligned(block, size, alignment)
#define _aligned_recalloc(block, count, size, alignment)                                           \
    mi_aligned_recalloc(block, count, size, alignment)
#define _aligned_msize(block, alignment, offset) mi_usable_size(block)
#define _aligned_free(block) mi_free(block)
#define _aligned_offset_malloc(size, alignment, offset)                                            \
    mi_malloc_aligned_at(size, alignment, offset)
#define _aligned_offset_realloc(block, size, alignment, offset)                                    \
    mi_realloc_aligned_at(block, size, alignment, offset)
#define _aligned_offset_recalloc(block, count, size, alignment, offset)                            \
    mi_recalloc_aligned_at(block, count, size, alignment, offset)

#endif

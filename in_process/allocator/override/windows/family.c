// The malloc family of the C runtimes of Windows under its own names. Where their documentation
// leaves a choice, the functions behave as on Linux.
//
// A program takes them from its import library or static library of Keel, which precedes that of
// the C runtime. So they replace the functions for the modules that are linked with Keel only:
// other DLLs keep those of their own runtime. Blocks that the runtime has allocated for such a
// module, as _getcwd(NULL, 0) does, are passed on to the heap that they are from.
#define _CRTIMP // else the functions would be declared as those of a DLL
#include "allocator/api/entry.h"
#include "keel/keel.h"
#include "os/windows/foreign.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

// Not every version of the runtime declares these.
void* _aligned_recalloc(void* block, size_t count, size_t size, size_t alignment);
void* _aligned_offset_recalloc(void* block, size_t count, size_t size, size_t alignment,
                               size_t offset);
size_t _aligned_msize(void* block, size_t alignment, size_t offset);
unsigned char* _mbsdup(const unsigned char* text);
void* _malloc_base(size_t size);
void* _calloc_base(size_t count, size_t size);
void* _realloc_base(void* block, size_t size);
void _free_base(void* block);

__attribute__((constructor)) static void pass_on_foreign_blocks(void) {
    free_set_elsewhere(foreign_block_free);
}

static bool is_foreign(const void* block, size_t* bytes) {
    return block != NULL && entry_usable_bytes(block) == 0 && foreign_block_bytes(block, bytes);
}

// Moves a block of a runtime to `own`, a new block. NULL: there was no memory, and nothing changed.
static void* adopt(void* block, size_t bytes, void* own, size_t size) {
    if (own == NULL) return NULL;
    memcpy(own, block, bytes < size ? bytes : size);
    (void)foreign_block_free(block);
    return own;
}

// --- malloc --------------------------------------------------------------------------------------

void* malloc(size_t size) {
    return entry_allocate(size);
}
void free(void* block) {
    entry_free_kind(block, BLOCK_MALLOC);
}
void* calloc(size_t count, size_t size) {
    return entry_zeroed(entry_product(count, size));
}

void* realloc(void* block, size_t size) {
    size_t bytes;
    if (size != 0 && is_foreign(block, &bytes))
        return adopt(block, bytes, entry_allocate(size), size);
    return entry_realloc(block, size);
}

void* _recalloc(void* block, size_t count, size_t size) {
    size_t bytes, whole = entry_product(count, size);
    if (is_foreign(block, &bytes)) return adopt(block, bytes, entry_zeroed(whole), whole);
    return kl_recalloc(block, count, size);
}

void* _malloc_base(size_t size) {
    return entry_allocate(size);
}
void* _calloc_base(size_t count, size_t size) {
    return calloc(count, size);
}
void* _realloc_base(void* block, size_t size) {
    return realloc(block, size);
}
void _free_base(void* block) {
    entry_free_kind(block, BLOCK_MALLOC);
}

// --- Sizes ---------------------------------------------------------------------------------------

size_t _msize(void* block) {
    size_t bytes = 0;
    if (block == NULL) {
        errno = EINVAL;
        return SIZE_MAX;
    }
    bytes = entry_usable_bytes(block);
    if (bytes == 0) (void)foreign_block_bytes(block, &bytes);
    return bytes;
}

void* _expand(void* block, size_t size) {
    if (block == NULL) {
        errno = EINVAL;
        return NULL;
    }
    if (kl_expand(block, size) != NULL) return block;
    errno = ENOMEM;
    return NULL;
}

// --- Alignment -----------------------------------------------------------------------------------

void* _aligned_malloc(size_t size, size_t alignment) {
    return entry_aligned(size, alignment);
}
void _aligned_free(void* block) {
    entry_free_any(block);
}
void* _aligned_realloc(void* block, size_t size, size_t alignment) {
    return kl_aligned_realloc(block, alignment, size);
}
void* _aligned_recalloc(void* block, size_t count, size_t size, size_t alignment) {
    return kl_aligned_recalloc(block, alignment, count, size);
}
void* _aligned_offset_malloc(size_t size, size_t alignment, size_t offset) {
    return kl_aligned_alloc_at(alignment, offset, size);
}
void* _aligned_offset_realloc(void* block, size_t size, size_t alignment, size_t offset) {
    return kl_aligned_realloc_at(block, alignment, offset, size);
}
void* _aligned_offset_recalloc(void* block, size_t count, size_t size, size_t alignment,
                               size_t offset) {
    return kl_aligned_recalloc_at(block, alignment, offset, count, size);
}
size_t _aligned_msize(void* block, size_t alignment, size_t offset) {
    (void)alignment, (void)offset;
    return _msize(block);
}

// --- Copies of texts -----------------------------------------------------------------------------

char* _strdup(const char* text) {
    return text == NULL ? NULL : kl_strdup(text);
}
char* strdup(const char* text) {
    return _strdup(text);
}
unsigned char* _mbsdup(const unsigned char* text) {
    return (unsigned char*)_strdup((const char*)text);
}

wchar_t* _wcsdup(const wchar_t* text) {
    if (text == NULL) return NULL;
    size_t bytes = (wcslen(text) + 1) * sizeof *text;
    wchar_t* copy = entry_allocate(bytes);
    return copy == NULL ? NULL : memcpy(copy, text, bytes);
}
wchar_t* wcsdup(const wchar_t* text) {
    return _wcsdup(text);
}

// --- Names of a static library -------------------------------------------------------------------

// Code that was compiled for a runtime in a DLL calls its functions by these pointers. Without them
// it would take the runtime's pointer, and with that the runtime's function a second time.
#define POINTER(name)                                                                              \
    extern __typeof__(&(name)) const __imp_##name;                                                 \
    __typeof__(&(name)) const __imp_##name = name;
#if !defined(KEEL_IS_DLL)
POINTER(malloc)
POINTER(free)
POINTER(calloc)
POINTER(realloc)
POINTER(_recalloc)
POINTER(_malloc_base)
POINTER(_calloc_base)
POINTER(_realloc_base)
POINTER(_free_base)
POINTER(_msize)
POINTER(_expand)
POINTER(_aligned_malloc)
POINTER(_aligned_free)
POINTER(_aligned_realloc)
POINTER(_aligned_recalloc)
POINTER(_aligned_offset_malloc)
POINTER(_aligned_offset_realloc)
POINTER(_aligned_offset_recalloc)
POINTER(_aligned_msize)
POINTER(_strdup)
POINTER(strdup)
POINTER(_mbsdup)
POINTER(_wcsdup)
POINTER(wcsdup)
#endif

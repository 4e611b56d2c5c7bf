// keel/keel.h beyond the malloc family: at an offset, zeroing resizes, real sizes, C23, paths.
#include "allocator/api/entry.h"
#include "keel/keel.h"
#include <limits.h>
#include <stdlib.h>

static struct request at(size_t alignment, size_t offset, size_t size, bool zero) {
    return (struct request){size, alignment, offset, zero};
}

void* kl_aligned_alloc_at(size_t alignment, size_t offset, size_t size) {
    return entry_request(NULL, at(alignment, offset, size, false));
}
void* kl_aligned_calloc_at(size_t alignment, size_t offset, size_t count, size_t size) {
    return entry_request(NULL, at(alignment, offset, entry_product(count, size), true));
}
void* kl_aligned_realloc_at(void* block, size_t alignment, size_t offset, size_t size) {
    return entry_resize(NULL, block, at(alignment, offset, size, false));
}
void* kl_rezalloc(void* block, size_t size) {
    return entry_resize(NULL, block, at(1, 0, size, true));
}
void* kl_recalloc(void* block, size_t count, size_t size) {
    return kl_rezalloc(block, entry_product(count, size));
}
void* kl_aligned_rezalloc(void* block, size_t alignment, size_t size) {
    return entry_resize(NULL, block, at(alignment, 0, size, true));
}
void* kl_aligned_recalloc(void* block, size_t alignment, size_t count, size_t size) {
    return kl_aligned_rezalloc(block, alignment, entry_product(count, size));
}
void* kl_aligned_rezalloc_at(void* block, size_t alignment, size_t offset, size_t size) {
    return entry_resize(NULL, block, at(alignment, offset, size, true));
}
void* kl_aligned_recalloc_at(void* block, size_t alignment, size_t offset, size_t count,
                             size_t size) {
    return kl_aligned_rezalloc_at(block, alignment, offset, entry_product(count, size));
}

static void tell_usable(const void* block, size_t* usable) {
    if (usable != NULL) *usable = block_usable_bytes(block);
}

void* kl_umalloc(size_t size, size_t* usable) {
    void* block = entry_allocate(size);
    tell_usable(block, usable);
    return block;
}
void* kl_ucalloc(size_t count, size_t size, size_t* usable) {
    void* block = entry_zeroed(entry_product(count, size));
    tell_usable(block, usable);
    return block;
}
void* kl_urealloc(void* block, size_t size, size_t* usable_before, size_t* usable) {
    tell_usable(block, usable_before);
    void* resized = entry_realloc(block, size);
    tell_usable(resized, usable);
    return resized;
}
void kl_ufree(void* block, size_t* usable) {
    tell_usable(block, usable);
    free_block(block);
}

void kl_free_sized(void* block, size_t size) {
    (void)size;
    free_block(block);
}
void kl_free_aligned_sized(void* block, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    free_block(block);
}

// libc's own block would be the program's malloc's, which need not be ours: so into a buffer of ours first.
char* kl_realpath(const char* path, char* resolved) {
    if (resolved != NULL) return realpath(path, resolved);
    char buffer[PATH_MAX];
    return realpath(path, buffer) == NULL ? NULL : kl_strdup(buffer);
}

// The functions of keel/keel.h, where they are documented.
#include "keel/keel.h"
#include "allocator/api/entry.h"
#include "allocator/api/process.h"
#include "allocator/api/statistics.h"
#include "allocator/keeper/keeper.h"
#include "base/bits.h"
#include <errno.h>
#include <string.h>

void* kl_malloc(size_t size) {
    return entry_allocate(size);
}
void kl_free(void* block) {
    free_block(block);
}
void* kl_calloc(size_t count, size_t size) {
    return entry_zeroed(entry_product(count, size));
}
void* kl_zalloc(size_t size) {
    return entry_zeroed(size);
}
void* kl_mallocn(size_t count, size_t size) {
    return entry_allocate(entry_product(count, size));
}
void* kl_realloc(void* block, size_t size) {
    return entry_realloc(block, size);
}

void* kl_reallocn(void* block, size_t count, size_t size) {
    return entry_realloc(block, entry_product(count, size));
}

void* kl_reallocf(void* block, size_t size) {
    void* resized = entry_realloc(block, size);
    if (resized == NULL && size != 0) free_block(block);
    return resized;
}

void* kl_expand(void* block, size_t size) {
    return block != NULL && reallocate_in_place(block, size) ? block : NULL;
}

static bool alignment_valid(size_t alignment) {
    if (is_power_of_two(alignment)) return true;
    errno = EINVAL;
    return false;
}

void* kl_aligned_alloc(size_t alignment, size_t size) {
    return alignment_valid(alignment) ? entry_aligned(size, alignment) : NULL;
}

void* kl_aligned_calloc(size_t alignment, size_t count, size_t size) {
    size_t bytes = entry_product(count, size);
    void* block = kl_aligned_alloc(alignment, bytes);
    return block == NULL ? NULL : memset(block, 0, bytes);
}

void* kl_aligned_realloc(void* block, size_t alignment, size_t size) {
    if (block == NULL || size == 0) {
        if (size != 0) return kl_aligned_alloc(alignment, size);
        return entry_realloc(block, size);
    }
    if (!alignment_valid(alignment)) return NULL;
    size_t usable = block_usable_bytes(block);
    bool aligned = ((uintptr_t)block & (alignment - 1)) == 0;
    if (aligned && size <= usable && size >= usable / 2) return block;
    void* copy = entry_aligned(size, alignment);
    if (copy == NULL) return NULL;
    memcpy(copy, block, size < usable ? size : usable);
    free_block(block);
    return copy;
}

void* kl_reallocarray(void* block, size_t count, size_t size) {
    return kl_reallocn(block, count, size);
}
void* kl_memalign(size_t alignment, size_t size) {
    return entry_memalign(size, alignment);
}
void* kl_valloc(size_t size) {
    return entry_valloc(size);
}
void* kl_pvalloc(size_t size) {
    return entry_pvalloc(size);
}
size_t kl_malloc_usable_size(const void* block) {
    return block_usable_bytes(block);
}

int kl_posix_memalign(void** block, size_t alignment, size_t size) {
    return entry_posix_memalign(block, alignment, size);
}

char* kl_strndup(const char* string, size_t length) {
    if (string == NULL) return NULL;
    length = strnlen(string, length);
    char* copy = entry_allocate(length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, string, length);
    copy[length] = '\0';
    return copy;
}

char* kl_strdup(const char* string) {
    return kl_strndup(string, KEEL_SIZE_MAX - 1);
}

size_t kl_usable_size(const void* block) {
    return block_usable_bytes(block);
}
size_t kl_good_size(size_t size) {
    return good_size(size);
}
bool kl_contains(const void* address) {
    return block_is_ours(address);
}
void kl_collect(void) {
    reclaim_all();
}
bool kl_keeper_start(void) {
    process_enter();
    return keeper_start();
}

size_t kl_warm(size_t bytes) {
    process_enter();
    return keeper_warm(bytes);
}

void kl_thread_idle(void) {
    keeper_thread_idle();
}

bool kl_thread_set_realtime(size_t spare_bytes) {
    process_enter();
    return keeper_thread_set_realtime(spare_bytes);
}
int kl_version(void) {
    return KEEL_VERSION_MAJOR * 10000 + KEEL_VERSION_MINOR * 100 + KEEL_VERSION_PATCH;
}
void kl_stats_print(kl_output* output, void* argument) {
    statistics_print(output, argument);
}
size_t kl_stats_json(char* buffer, size_t size) {
    return statistics_json(buffer, size);
}
void kl_process_info(struct kl_process* process) {
    statistics_process(process);
}

// The functions of keel/keel.h, where they are documented.
#include "keel/keel.h"
#include "allocator/api/entry.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include "allocator/api/statistics.h"
#include "allocator/keeper/keeper.h"
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

void* kl_aligned_alloc(size_t alignment, size_t size) {
    return entry_aligned(size, alignment);
}

void* kl_aligned_calloc(size_t alignment, size_t count, size_t size) {
    return entry_request(NULL, (struct request){entry_product(count, size), alignment, 0, true});
}

void* kl_aligned_realloc(void* block, size_t alignment, size_t size) {
    return entry_resize(NULL, block, (struct request){.size = size, .alignment = alignment});
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
void kl_collect(bool force) {
    process_enter();
    message_heartbeat(force);
    struct heap* before = first_class_own_enter();
    if (force)
        reclaim_all();
    else
        keeper_thread_idle();
    first_class_own_leave(before);
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
    struct heap* before = first_class_own_enter();
    keeper_thread_idle();
    first_class_own_leave(before);
}

bool kl_thread_set_realtime(size_t spare_bytes) {
    process_enter();
    struct heap* before = first_class_own_enter();
    bool has_spare = keeper_thread_set_realtime(spare_bytes);
    first_class_own_leave(before);
    return has_spare;
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

// The functions of keel/keel.h, where they are documented.
#include "keel/keel.h"
#include "allocator/api/entry.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include "allocator/api/report.h"
#include "allocator/keeper/keeper.h"
#include "os/process.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void* kl_malloc(size_t size) {
    return entry_allocate(size);
}
void kl_free(void* block) {
    entry_free(block);
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
    if (resized == NULL && size != 0) entry_free_any(block);
    return resized;
}

void* kl_expand(void* block, size_t size) {
    if (KEEL_DEBUG) return block != NULL && size <= debug_usable_bytes(block) ? block : NULL;
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
    return entry_usable_bytes(block);
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

static void set_usable(const void* block, size_t* usable) {
    if (usable != NULL) *usable = entry_usable_bytes(block);
}

void* kl_umalloc(size_t size, size_t* usable) {
    void* block = entry_allocate(size);
    set_usable(block, usable);
    return block;
}
void* kl_ucalloc(size_t count, size_t size, size_t* usable) {
    void* block = entry_zeroed(entry_product(count, size));
    set_usable(block, usable);
    return block;
}
void* kl_urealloc(void* block, size_t size, size_t* usable_before, size_t* usable) {
    set_usable(block, usable_before);
    void* resized = entry_realloc(block, size);
    set_usable(resized, usable);
    return resized;
}
void kl_ufree(void* block, size_t* usable) {
    set_usable(block, usable);
    entry_free_any(block);
}

// A number of the program becomes one that exists.
static unsigned partition_number(unsigned partition) {
    return partition % PARTITIONS;
}
void* kl_partition_malloc(unsigned partition, size_t size) {
    return entry_allocate_in(size, partition_number(partition));
}
void* kl_partition_calloc(unsigned partition, size_t count, size_t size) {
    return entry_zeroed_in(entry_product(count, size), partition_number(partition));
}
void* kl_partition_aligned_alloc(unsigned partition, size_t alignment, size_t size) {
    return entry_aligned_in(size, alignment, partition_number(partition));
}
unsigned kl_partition_of_token(size_t token) {
    return entry_partition_of(token);
}
unsigned kl_partition_of(const void* block) {
    return KEEL_SECURE ? block_partition(block) : 0;
}

void kl_free_sized(void* block, size_t size) {
    entry_free_sized(block, size, 1, false);
}
void kl_free_aligned_sized(void* block, size_t alignment, size_t size) {
    entry_free_sized(block, size, alignment, false);
}

// With NULL, libc would allocate the result with the program's malloc, which may not be Keel's.
// Therefore libc writes to a local buffer first.
char* kl_realpath(const char* path, char* resolved) {
    if (resolved != NULL) return os_real_path(path, resolved);
    char buffer[PATH_MAX];
    return os_real_path(path, buffer) == NULL ? NULL : kl_strdup(buffer);
}

size_t kl_usable_size(const void* block) {
    return entry_usable_bytes(block);
}
size_t kl_good_size(size_t size) {
    return KEEL_DEBUG ? size : good_size(size);
}
bool kl_contains(const void* address) {
    return block_is_ours(KEEL_DEBUG ? debug_lower_address(address) : address);
}
size_t kl_check_all(void) {
    return KEEL_DEBUG ? debug_check_all() : 0;
}
void kl_collect(bool force) {
    process_enter();
    message_heartbeat(force);
    if (KEEL_DEBUG && force) (void)debug_empty_quarantine();
    struct heap* before = own_heap_enter();
    if (force)
        reclaim_all();
    else
        keeper_thread_idle();
    own_heap_leave(before);
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
    struct heap* before = own_heap_enter();
    keeper_thread_idle();
    own_heap_leave(before);
}

bool kl_thread_set_realtime(size_t spare_bytes) {
    process_enter();
    struct heap* before = own_heap_enter();
    bool has_spare = keeper_thread_set_realtime(spare_bytes);
    own_heap_leave(before);
    return has_spare;
}
int kl_version(void) {
    return KEEL_VERSION_MAJOR * 10000 + KEEL_VERSION_MINOR * 100 + KEEL_VERSION_PATCH;
}
void kl_stats_print(kl_output* output, void* argument) {
    report_print(output, argument);
}
size_t kl_stats_json(char* buffer, size_t size) {
    return report_json(buffer, size);
}
void kl_process_info(struct kl_process* process) {
    report_process(process);
}

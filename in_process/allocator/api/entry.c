#include "allocator/api/entry.h"
#include "allocator/api/process.h"
#include "allocator/keeper/keeper.h"
#include "base/bits.h"
#include "base/counters.h"
#include "os/memory.h"
#include <errno.h>
#include <string.h>

static void* or_no_memory(void* block) {
    if (KEEL_UNLIKELY(block == NULL)) {
        count_event(EVENT_OUT_OF_MEMORY, 1);
        errno = ENOMEM;
    }
    return block;
}

static KEEL_NOINLINE void* entry_malloc_miss(size_t size) {
    process_enter();
    keeper_notice();
    return or_no_memory(alloc_slow(size));
}

void* entry_malloc(size_t size) {
    void* block = alloc_near(size);
    return KEEL_LIKELY(block != NULL) ? block : entry_malloc_miss(size);
}

void* entry_zeroed(size_t size) {
    void* block = alloc_zeroed_hit(size);
    if (KEEL_LIKELY(block != NULL)) return block;
    process_enter();
    keeper_notice();
    return or_no_memory(alloc_zeroed(size));
}

void* entry_aligned(size_t size, size_t alignment) {
    process_enter();
    return or_no_memory(alloc_aligned(size, alignment));
}

void* entry_realloc(void* block, size_t size) {
    if (block == NULL) return entry_allocate(size);
    if (size == 0) {
        free_block(block);
        return NULL;
    }
    process_enter();
    return or_no_memory(reallocate(block, size));
}

void* entry_memalign(size_t size, size_t alignment) {
    if (KEEL_UNLIKELY(!is_power_of_two(alignment))) {
        if (alignment > KEEL_SIZE_MAX / 2) {
            errno = EINVAL;
            return NULL;
        }
        alignment = alignment < 2 ? 1 : (size_t)1 << (bit_highest(alignment - 1) + 1);
    }
    return entry_aligned(size, alignment);
}

void* entry_valloc(size_t size) {
    return entry_aligned(size, os_page_bytes());
}

void* entry_pvalloc(size_t size) {
    size_t page = os_page_bytes();
    if (size > KEEL_SIZE_MAX - page) return or_no_memory(NULL);
    return entry_aligned(size == 0 ? page : round_up(size, page), page);
}

int entry_posix_memalign(void** block, size_t alignment, size_t size) {
    if (alignment % sizeof(void*) != 0 || !is_power_of_two(alignment)) return EINVAL;
    int saved = errno;
    void* aligned = entry_aligned(size, alignment);
    errno = saved;
    if (aligned == NULL) return ENOMEM;
    *block = aligned;
    return 0;
}

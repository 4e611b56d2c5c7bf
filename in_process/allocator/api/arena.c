// The functions of keel/arena.h, where they are documented.
#include "keel/arena.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include "allocator/debug/debug.h"
#include "allocator/space/arena.h"
#include "base/bits.h"
#include "base/options.h"
#include "os/huge.h"
#include "os/memory.h"
#include "os/process.h"
#include <errno.h>

#define LARGE_BYTES ((size_t)1 << OS_LARGE_SHIFT)

static int error_of(enum arena_result verdict) {
    return verdict == ARENA_NOT_USABLE ? EINVAL : verdict == ARENA_NO_ENTRY ? ENOSPC : ENOMEM;
}

static kl_arena_t* arena_new(const struct arena_memory* memory) {
    struct arena* arena;
    enum arena_result verdict = arena_add(memory, &arena);
    if (verdict == ARENA_OK) return (kl_arena_t*)arena;
    if (memory->mapped) os_unmap(memory->start, memory->bytes);
    errno = error_of(verdict);
    return NULL;
}

kl_arena_t* kl_manage_os_memory(void* start, size_t bytes, unsigned flags, int numa_node) {
    process_enter();
    struct arena_memory memory = {
        .start = start,
        .bytes = bytes,
        .node = numa_node < 0 ? ARENA_ANY_NODE : numa_node,
        .zero = (flags & kl_memory_zero) != 0,
        .populated = (flags & kl_memory_populated) != 0,
        .exclusive = (flags & kl_memory_exclusive) != 0,
        .closed = (flags & kl_memory_closed) != 0,
    };
    return arena_new(&memory);
}

// Maps all of the memory in large pages, or maps nothing.
static bool map_large(struct arena_memory* memory) {
    size_t pages = memory->bytes >> OS_LARGE_SHIFT;
    size_t mapped =
        os_map_huge(pages, OS_LARGE_SHIFT, pages, ARENA_ANY_NODE, UINT64_MAX, &memory->start);
    memory->populated = mapped == pages;
    return mapped == pages;
}

static bool map_ordinary(struct arena_memory* memory) {
    memory->start = os_map(memory->bytes, LARGE_BYTES);
    if (memory->start == NULL) return false;
    if (!memory->populated || os_populate(memory->start, memory->bytes)) return true;
    os_unmap(memory->start, memory->bytes);
    return false;
}

kl_arena_t* kl_reserve_os_memory(size_t bytes, unsigned flags) {
    process_enter();
    if (bytes == 0 || bytes > SIZE_MAX - LARGE_BYTES) {
        errno = bytes == 0 ? EINVAL : ENOMEM;
        return NULL;
    }
    struct arena_memory memory = {
        .bytes = round_up(bytes, LARGE_BYTES),
        .node = ARENA_ANY_NODE,
        .zero = true,
        .exclusive = (flags & kl_memory_exclusive) != 0,
        .mapped = true,
    };
    bool large = (flags & kl_memory_large_pages) != 0 || option_get(OPTION_LARGE_OS_PAGES) != 0;
    if (!large || !map_large(&memory)) {
        memory.populated = (flags & kl_memory_populated) != 0;
        if (!map_ordinary(&memory)) {
            errno = ENOMEM;
            return NULL;
        }
    }
    return arena_new(&memory);
}

static uint64_t deadline_of(size_t timeout_ms) {
    uint64_t now = os_clock_ms();
    return timeout_ms == 0 || timeout_ms > UINT64_MAX - now ? UINT64_MAX : now + timeout_ms;
}

// Returns 0, or the error if fewer pages were reserved.
static int reserve_huge(size_t pages, int node, uint64_t deadline_ms) {
    struct arena_memory memory = {.node = node, .zero = true, .populated = true, .mapped = true};
    if (pages == 0) return 0;
    size_t mapped = os_map_huge(pages, OS_HUGE_SHIFT, 1, node, deadline_ms, &memory.start);
    memory.bytes = mapped << OS_HUGE_SHIFT;
    int saved = errno;
    int error = mapped > 0 && arena_new(&memory) == NULL ? errno : 0;
    errno = saved;
    if (error != 0 || mapped == pages) return error;
    return mapped > 0 && os_clock_ms() >= deadline_ms ? ETIMEDOUT : ENOMEM;
}

int kl_reserve_huge_os_pages_at(size_t pages, int numa_node, size_t timeout_ms) {
    process_enter();
    if (numa_node >= (int)arena_numa_nodes()) return EINVAL;
    return reserve_huge(pages, numa_node < 0 ? ARENA_ANY_NODE : numa_node, deadline_of(timeout_ms));
}

int kl_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes, size_t timeout_ms) {
    process_enter();
    size_t nodes = numa_nodes == 0 ? arena_numa_nodes() : numa_nodes;
    if (nodes > arena_numa_nodes()) return EINVAL;
    uint64_t deadline_ms = deadline_of(timeout_ms);
    int first_error = 0;
    for (size_t node = 0; node < nodes; node++) {
        size_t share = pages / nodes + (node < pages % nodes);
        int error = reserve_huge(share, nodes == 1 ? ARENA_ANY_NODE : (int)node, deadline_ms);
        if (first_error == 0) first_error = error;
        if (error == ETIMEDOUT) break;
    }
    return first_error;
}

size_t kl_numa_nodes(void) {
    process_enter();
    return arena_numa_nodes();
}

// Reserves the pages that the option requests, before main.
__attribute__((constructor)) static void reserve_at_start(void) {
    process_enter();
    int64_t pages = option_get(OPTION_RESERVE_HUGE_OS_PAGES);
    if (pages <= 0 || pages > 1 << 16) return;
    int error = kl_reserve_huge_os_pages_interleave((size_t)pages, 0, (size_t)pages * 500);
    if (error != 0)
        message_error(error, "keel: KEEL_RESERVE_HUGE_OS_PAGES: not all pages of 1 GiB were "
                             "available; see "
                             "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages\n");
}

void kl_arena_info(kl_arena_t* handle, struct kl_arena_state* info) {
    const struct arena* arena = (const struct arena*)handle;
    *info = (struct kl_arena_state){
        .start = (void*)arena_range(arena).start,
        .bytes = arena_range(arena).slices * SLICE_BYTES,
        .used_bytes = atomic_get(&arena->live) * SLICE_BYTES,
        .bound_heaps = atomic_get(&arena->heaps),
        .numa_node = arena->node,
        .exclusive = arena->exclusive,
    };
}

#define RELEASE_TRIES 1000u // 0.1 s: other threads may return blocks all the time

bool kl_arena_release(kl_arena_t* arena) {
    bool later = true;
    for (unsigned tries = 0; tries < RELEASE_TRIES && later; tries++) {
        if (KEEL_DEBUG && tries > 0) debug_wait();
        later = KEEL_DEBUG && debug_empty_quarantine();
        if (arena_remove((struct arena*)arena)) return true;
    }
    errno = EBUSY;
    return false;
}

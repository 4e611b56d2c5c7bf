#include "allocator/api/entry.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include "allocator/keeper/keeper.h"
#include "allocator/page/empty_block.h"
#include "base/bits.h"
#include "base/counters.h"
#include "os/memory.h"
#include <string.h>

// True: the block can be one of zero bytes.
KEEL_INLINE bool is_empty(size_t size) {
    return EMPTY_BLOCKS && size == 0;
}

static KEEL_COLD void* no_memory(void) {
    count_event(EVENT_OUT_OF_MEMORY, 1);
    errno = ENOMEM;
    return NULL;
}

// Returns the heap for addresses inside blocks (alignment at an offset), of all threads. It is
// created at the first use and never ends.
static struct user_heap* offset_heap(void) {
    static atomic_word made;
    struct user_heap* heap = (struct user_heap*)atomic_get_acquire(&made);
    if (heap != NULL) return heap;
    struct user_heap* fresh = user_heap_new(NULL, 0);
    uintptr_t expected = 0;
    if (fresh == NULL || atomic_try_word(&made, &expected, (uintptr_t)fresh)) return fresh;
    user_heap_delete(fresh); // another thread was faster
    return (struct user_heap*)expected;
}

static bool is_inner(const struct request* request) {
    return request->alignment > 1 && (request->offset & (request->alignment - 1)) != 0;
}

static void* request_once(struct user_heap* heap, struct request request) {
    if (heap == NULL) heap = user_heap_default();
    if (heap == NULL && is_inner(&request) && (heap = offset_heap()) == NULL) return NULL;
    if (heap != NULL) return user_heap_allocate(heap, request);
    return alloc_plain(request.size, request.alignment, request.zero);
}

// The lower block of a block that may grow in place.
static void* request_roomy(struct user_heap* heap, struct debug_request* debug, size_t size) {
    struct request roomy = debug->lower;
    if (!size_add(roomy.size, size / ROOM_SHARE, &roomy.size)) return NULL;
    void* lower = request_once(heap, roomy);
    debug->roomy = lower != NULL;
    return lower;
}

// In the debug flavour, a block of the program is a part of a larger one, and has a record. NULL:
// there is no memory for one of them.
static void* request_recorded(struct user_heap* heap, const struct request* request,
                              struct debug_request* debug, bool roomy) {
    void* lower = NULL;
    if (!KEEL_DEBUG) return NULL; // as in resize_moving
    if (roomy) lower = request_roomy(heap, debug, request->size);
    if (lower == NULL) lower = request_once(heap, debug->lower);
    return lower == NULL ? NULL : debug_begin(lower, request, debug);
}

// If there is no memory, the freed blocks that the debug flavour keeps make room, also with their
// records.
static void* request_block(struct user_heap* heap, struct request request, bool roomy) {
    struct debug_request debug;
    if (!KEEL_DEBUG) return request_once(heap, request);
    if (!debug_lower(&request, &debug)) return NULL;
    void* block = request_recorded(heap, &request, &debug, roomy);
    if (block != NULL) return block;
    (void)debug_empty_quarantine();
    return request_recorded(heap, &request, &debug, false);
}

static void* request_any(struct user_heap* heap, struct request request, bool roomy) {
    if (!entry_alignment_valid(request.alignment)) return NULL;
    if (is_inner(&request) && request.alignment > SLICE_BYTES) {
        errno = EINVAL;
        return NULL;
    }
    process_enter();
    message_heartbeat(false);
    do {
        void* block = request_block(heap, request, roomy);
        keeper_notice();
        if (KEEL_LIKELY(block != NULL)) return block;
    } while (message_out_of_memory(request.size));
    return no_memory();
}

void* entry_request(struct user_heap* heap, struct request request) {
    return request_any(heap, request, false);
}

// As entry_request, from the heap that the thread's malloc uses, without an offset. A request in
// memory would be copied right after it is written, which costs more than all else here.
static KEEL_NOINLINE void* request_plain(size_t size, size_t alignment, bool zero) {
    if (is_empty(size) && alignment <= EMPTY_BLOCK_DISTANCE && !thread_heap_is_redirect()) {
        process_enter();
        void* block = empty_block_allocate();
        if (block != NULL) return block;
    }
    if (!KEEL_DEBUG && KEEL_LIKELY(!thread_heap_is_redirect())) {
        process_enter();
        message_heartbeat(false);
        void* block = alloc_plain(size, alignment, zero);
        keeper_notice();
        if (KEEL_LIKELY(block != NULL)) return block;
    }
    return entry_request(NULL,
                         (struct request){.size = size, .alignment = alignment, .zero = zero});
}

void* entry_malloc(size_t size) {
    void* block = KEEL_DEBUG || is_empty(size) ? NULL : alloc_from_bin(size);
    return KEEL_LIKELY(block != NULL) ? block : request_plain(size, 1, false);
}

void* entry_zeroed(size_t size) {
    void* block = KEEL_DEBUG || is_empty(size) ? NULL : alloc_from_bin_zeroed(size);
    return KEEL_LIKELY(block != NULL) ? block : request_plain(size, 1, true);
}

void* entry_aligned(size_t size, size_t alignment) {
    if (!entry_alignment_valid(alignment)) return NULL;
    void* block = KEEL_DEBUG || is_empty(size) ? NULL : alloc_aligned_from_bin(size, alignment);
    return KEEL_LIKELY(block != NULL) ? block : request_plain(size, alignment, false);
}

void* entry_malloc_in(size_t size, unsigned partition) {
    unsigned before = partition_enter(partition);
    void* block = entry_malloc(size);
    partition_leave(before);
    return block;
}

void* entry_zeroed_in(size_t size, unsigned partition) {
    unsigned before = partition_enter(partition);
    void* block = entry_zeroed(size);
    partition_leave(before);
    return block;
}

void* entry_aligned_in(size_t size, size_t alignment, unsigned partition) {
    unsigned before = partition_enter(partition);
    void* block = entry_aligned(size, alignment);
    partition_leave(before);
    return block;
}

// Moves the content into a new block of the same partition. On failure the old block is unchanged.
static void* move(struct user_heap* heap, void* block, size_t usable, struct request request) {
    unsigned before = partition_enter(block_partition(block));
    void* copy = entry_request(heap, request);
    partition_leave(before);
    if (copy == NULL) return NULL;
    memcpy(copy, block, request.size < usable ? request.size : usable);
    free_block(block);
    return copy;
}

static bool stays(const void* block, size_t usable, const struct request* request) {
    if ((((uintptr_t)block + request->offset) & (request->alignment - 1)) != 0) return false;
    return request->size <= usable && request->size >= usable / 2;
}

// Zeroes the block from the end of the kept bytes to its own end. If only such functions have
// resized the block, the usable bytes after its old size are already zero.
static void* zero_rest(void* block, size_t usable, size_t size) {
    size_t kept = size < usable ? size : usable;
    size_t end = block_usable_bytes(block);
    if (end > kept) memset((char*)block + kept, 0, end - kept);
    return block;
}

static void* resize_once(void* block, size_t size) {
    process_enter();
    message_heartbeat(false);
    do {
        void* resized = reallocate(block, size);
        keeper_notice();
        if (KEEL_LIKELY(resized != NULL)) return resized;
    } while (block_is_ours(block) && message_out_of_memory(size));
    return no_memory();
}

// In the debug flavour a resize moves the block, so that a use of its old address is found. The
// exceptions are blocks with room, and blocks that shrink if there is no memory.
static void* resize_moving(struct user_heap* heap, void* block, struct request request) {
    size_t size;
    if (!KEEL_DEBUG) return NULL; // else a build without optimization would need the debug layer
    if (!debug_size(block, &size)) return no_memory();
    if (debug_resize_in_place(block, &request)) return block;
    void* resized = request_any(heap, request, size >= ROOM_FROM && request.size >= ROOM_FROM);
    if (resized == NULL) return debug_shrink(block, &request) ? block : NULL;
    memcpy(resized, block, size < request.size ? size : request.size);
    debug_set_kind(resized, debug_kind(block));
    debug_free(block, BLOCK_ANY);
    return resized;
}

static KEEL_COLD void* replace_empty(struct user_heap* heap, void* block, struct request request) {
    unsigned before = partition_enter(empty_block_partition(block));
    void* resized = entry_request(heap, request);
    partition_leave(before);
    if (resized != NULL) (void)empty_block_free(block);
    return resized;
}

void* entry_resize(struct user_heap* heap, void* block, struct request request) {
    if (!entry_alignment_valid(request.alignment)) return NULL;
    if (block == NULL) return entry_request(heap, request);
    if (request.size == 0) {
        entry_free_any(block);
        return NULL;
    }
    if (EMPTY_BLOCKS && empty_block_is_live(block)) return replace_empty(heap, block, request);
    if (KEEL_DEBUG) return resize_moving(heap, block, request);
    size_t usable = block_usable_bytes(block);
    void* resized = block;
    bool ordinary = heap == NULL && request.alignment <= 1 && !thread_heap_is_redirect();
    if (ordinary || !block_is_ours(block))
        resized = resize_once(block, request.size);
    else if (!stays(block, usable, &request))
        resized = move(heap, block, usable, request);
    return resized != NULL && request.zero ? zero_rest(resized, usable, request.size) : resized;
}

void* entry_realloc(void* block, size_t size) {
    if (block == NULL) return entry_allocate(size);
    bool ordinary = size != 0 && !thread_heap_is_redirect();
    if (!KEEL_DEBUG && KEEL_LIKELY(ordinary) && !(EMPTY_BLOCKS && empty_block_is_live(block)))
        return resize_once(block, size);
    return entry_resize(NULL, block, (struct request){.size = size, .alignment = 1});
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
    if (size > KEEL_SIZE_MAX - page) return entry_aligned(SIZE_MAX, page); // fails
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

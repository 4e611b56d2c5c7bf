// The functions of keel/heap.h, where they are documented.
#include "keel/heap.h"
#include "allocator/alloc/usage.h"
#include "allocator/api/entry.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include "os/process.h"
#include <limits.h>
#include <stdlib.h>

// Denotes the calling thread's own heap.
static struct kl_heap { char nothing; } backing;

// NULL: the backing heap.
static struct user_heap* user_heap_from(kl_heap_t* heap) {
    return heap == &backing ? NULL : (struct user_heap*)heap;
}

static kl_heap_t* handle_of(struct user_heap* user) {
    return user == NULL ? &backing : (kl_heap_t*)user;
}

static kl_heap_t* heap_new(struct arena* arena, size_t limit_bytes) {
    process_enter();
    struct user_heap* user = user_heap_new(arena, limit_bytes);
    if (user == NULL) errno = ENOMEM;
    return (kl_heap_t*)user;
}

kl_heap_t* kl_heap_new(void) {
    return heap_new(NULL, 0);
}
kl_heap_t* kl_heap_new_with_limit(size_t bytes) {
    return heap_new(NULL, bytes);
}
kl_heap_t* kl_heap_new_in_arena(kl_arena_t* arena) {
    if (arena != NULL) return heap_new((struct arena*)arena, 0);
    errno = EINVAL;
    return NULL;
}
size_t kl_heap_limit(kl_heap_t* heap, size_t bytes) {
    return heap == &backing ? 0 : user_heap_set_limit(user_heap_from(heap), bytes);
}
void kl_heap_delete(kl_heap_t* heap) {
    if (heap != &backing) user_heap_delete(user_heap_from(heap));
}
void kl_heap_destroy(kl_heap_t* heap) {
    if (heap == &backing) return;
    if (KEEL_DEBUG) debug_heap_ends(user_heap_from(heap));
    user_heap_destroy(user_heap_from(heap));
}
void kl_heap_collect(kl_heap_t* heap, bool force) {
    if (heap == &backing)
        kl_collect(force);
    else
        user_heap_collect(user_heap_from(heap));
}
kl_heap_t* kl_heap_backing(void) {
    return &backing;
}
kl_heap_t* kl_heap_default(void) {
    return handle_of(user_heap_default());
}
kl_heap_t* kl_heap_set_default(kl_heap_t* heap) {
    process_enter();
    struct user_heap* before = user_heap_default();
    if (user_heap_set_default(user_heap_from(heap))) return handle_of(before);
    errno = ENOMEM;
    return NULL;
}

// For `backing`, allocates from the thread's own heap even while its default is another heap.
static void* allocate(kl_heap_t* heap, struct request request) {
    if (heap != &backing) return entry_request(user_heap_from(heap), request);
    struct heap* before = own_heap_enter();
    void* block = entry_request(NULL, request);
    own_heap_leave(before);
    return block;
}

static void* resize(kl_heap_t* heap, void* block, struct request request) {
    if (heap != &backing) return entry_resize(user_heap_from(heap), block, request);
    struct heap* before = own_heap_enter();
    void* resized = entry_resize(NULL, block, request);
    own_heap_leave(before);
    return resized;
}

static struct request at(size_t alignment, size_t offset, size_t size, bool zero) {
    return (struct request){size, alignment, offset, zero};
}

void* kl_heap_malloc(kl_heap_t* heap, size_t size) {
    return allocate(heap, at(1, 0, size, false));
}
void* kl_heap_zalloc(kl_heap_t* heap, size_t size) {
    return allocate(heap, at(1, 0, size, true));
}
void* kl_heap_calloc(kl_heap_t* heap, size_t count, size_t size) {
    return allocate(heap, at(1, 0, entry_product(count, size), true));
}
void* kl_heap_mallocn(kl_heap_t* heap, size_t count, size_t size) {
    return allocate(heap, at(1, 0, entry_product(count, size), false));
}
void* kl_heap_realloc(kl_heap_t* heap, void* block, size_t size) {
    return resize(heap, block, at(1, 0, size, false));
}
void* kl_heap_reallocn(kl_heap_t* heap, void* block, size_t count, size_t size) {
    return resize(heap, block, at(1, 0, entry_product(count, size), false));
}
void* kl_heap_reallocf(kl_heap_t* heap, void* block, size_t size) {
    void* resized = kl_heap_realloc(heap, block, size);
    if (resized == NULL && size != 0) entry_free_any(block);
    return resized;
}
void* kl_heap_rezalloc(kl_heap_t* heap, void* block, size_t size) {
    return resize(heap, block, at(1, 0, size, true));
}
void* kl_heap_recalloc(kl_heap_t* heap, void* block, size_t count, size_t size) {
    return resize(heap, block, at(1, 0, entry_product(count, size), true));
}

char* kl_heap_strndup(kl_heap_t* heap, const char* string, size_t length) {
    if (string == NULL) return NULL;
    length = strnlen(string, length);
    char* copy = kl_heap_malloc(heap, length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, string, length);
    copy[length] = '\0';
    return copy;
}
char* kl_heap_strdup(kl_heap_t* heap, const char* string) {
    return kl_heap_strndup(heap, string, KEEL_SIZE_MAX - 1);
}
char* kl_heap_realpath(kl_heap_t* heap, const char* path, char* resolved) {
    if (resolved != NULL) return os_real_path(path, resolved);
    char buffer[PATH_MAX];
    return os_real_path(path, buffer) == NULL ? NULL : kl_heap_strdup(heap, buffer);
}

void* kl_heap_aligned_alloc(kl_heap_t* heap, size_t alignment, size_t size) {
    return allocate(heap, at(alignment, 0, size, false));
}
void* kl_heap_aligned_calloc(kl_heap_t* heap, size_t alignment, size_t count, size_t size) {
    return allocate(heap, at(alignment, 0, entry_product(count, size), true));
}
void* kl_heap_aligned_realloc(kl_heap_t* heap, void* block, size_t alignment, size_t size) {
    return resize(heap, block, at(alignment, 0, size, false));
}
void* kl_heap_aligned_rezalloc(kl_heap_t* heap, void* block, size_t alignment, size_t size) {
    return resize(heap, block, at(alignment, 0, size, true));
}
void* kl_heap_aligned_recalloc(kl_heap_t* heap, void* block, size_t alignment, size_t count,
                               size_t size) {
    return resize(heap, block, at(alignment, 0, entry_product(count, size), true));
}
void* kl_heap_aligned_alloc_at(kl_heap_t* heap, size_t alignment, size_t offset, size_t size) {
    return allocate(heap, at(alignment, offset, size, false));
}
void* kl_heap_aligned_calloc_at(kl_heap_t* heap, size_t alignment, size_t offset, size_t count,
                                size_t size) {
    return allocate(heap, at(alignment, offset, entry_product(count, size), true));
}
void* kl_heap_aligned_realloc_at(kl_heap_t* heap, void* block, size_t alignment, size_t offset,
                                 size_t size) {
    return resize(heap, block, at(alignment, offset, size, false));
}
void* kl_heap_aligned_rezalloc_at(kl_heap_t* heap, void* block, size_t alignment, size_t offset,
                                  size_t size) {
    return resize(heap, block, at(alignment, offset, size, true));
}
void* kl_heap_aligned_recalloc_at(kl_heap_t* heap, void* block, size_t alignment, size_t offset,
                                  size_t count, size_t size) {
    return resize(heap, block, at(alignment, offset, entry_product(count, size), true));
}

bool kl_heap_contains(kl_heap_t* heap, const void* block) {
    if (KEEL_DEBUG) block = debug_lower_address(block);
    if (heap == &backing) return own_heap_owns(block);
    return block_is_ours(block) && block_user_heap(block) == user_heap_from(heap);
}

bool kl_heap_owns(kl_heap_t* heap, const void* address) {
    if (KEEL_DEBUG) address = debug_lower_address(address);
    if (heap == &backing) return own_heap_owns(address);
    return user_heap_owns(user_heap_from(heap), address);
}

struct visit {
    kl_heap_visitor* visitor;
    void* argument;
};

static bool visit_one(void* context, const struct visited_page* area, void* block) {
    const struct visit* visit = context;
    struct kl_heap_area kl_area = {area->blocks, area->reserved_bytes, area->carved_bytes,
                                   area->used * area->block_bytes, area->block_bytes};
    if (KEEL_DEBUG && block != NULL && (block = debug_visited(block)) == NULL) return true;
    return visit->visitor(&kl_area, block, visit->argument);
}

bool kl_heap_visit(kl_heap_t* heap, bool blocks, kl_heap_visitor* visitor, void* argument) {
    struct visit visit = {visitor, argument};
    if (heap == &backing) return own_heap_visit(blocks, visit_one, &visit);
    if (KEEL_DEBUG) debug_visit_begins();
    bool whole = user_heap_visit(user_heap_from(heap), blocks, visit_one, &visit);
    if (KEEL_DEBUG) debug_visit_ends();
    return whole;
}

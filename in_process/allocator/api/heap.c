// The functions of keel/heap.h, where they are documented.
#include "keel/heap.h"
#include "allocator/alloc/backing.h"
#include "allocator/api/entry.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include <limits.h>
#include <stdlib.h>

// Stands for the own heap of whichever thread asks.
static struct kl_heap { char nothing; } backing;

// NULL: the backing heap.
static struct shared* shared_from(kl_heap_t* heap) {
    return heap == &backing ? NULL : (struct shared*)heap;
}

static kl_heap_t* handle_of(struct shared* shared) {
    return shared == NULL ? &backing : (kl_heap_t*)shared;
}

static kl_heap_t* heap_new(struct region* region, size_t limit_bytes) {
    process_enter();
    struct shared* shared = first_class_new(region, limit_bytes);
    if (shared == NULL) errno = ENOMEM;
    return (kl_heap_t*)shared;
}

kl_heap_t* kl_heap_new(void) {
    return heap_new(NULL, 0);
}
kl_heap_t* kl_heap_new_with_limit(size_t bytes) {
    return heap_new(NULL, bytes);
}
kl_heap_t* kl_heap_new_in_arena(kl_arena_t* arena) {
    return heap_new((struct region*)arena, 0);
}
size_t kl_heap_limit(kl_heap_t* heap, size_t bytes) {
    return heap == &backing ? 0 : first_class_limit(shared_from(heap), bytes);
}
void kl_heap_delete(kl_heap_t* heap) {
    if (heap != &backing) first_class_delete(shared_from(heap));
}
void kl_heap_destroy(kl_heap_t* heap) {
    if (heap != &backing) first_class_destroy(shared_from(heap));
}
void kl_heap_collect(kl_heap_t* heap, bool force) {
    if (heap == &backing)
        kl_collect(force);
    else
        first_class_collect(shared_from(heap));
}
kl_heap_t* kl_heap_backing(void) {
    return &backing;
}
kl_heap_t* kl_heap_default(void) {
    return handle_of(first_class_default());
}
kl_heap_t* kl_heap_set_default(kl_heap_t* heap) {
    process_enter();
    struct shared* before = first_class_default();
    if (first_class_set_default(shared_from(heap))) return handle_of(before);
    errno = ENOMEM;
    return NULL;
}

// Of the backing heap even while the thread's default is another.
static void* allocate(kl_heap_t* heap, struct request request) {
    if (heap != &backing) return entry_request(shared_from(heap), request);
    struct heap* before = first_class_own_enter();
    void* block = entry_request(NULL, request);
    first_class_own_leave(before);
    return block;
}

static void* resize(kl_heap_t* heap, void* block, struct request request) {
    if (heap != &backing) return entry_resize(shared_from(heap), block, request);
    struct heap* before = first_class_own_enter();
    void* resized = entry_resize(NULL, block, request);
    first_class_own_leave(before);
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
    if (resized == NULL && size != 0) free_block(block);
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
    if (resolved != NULL) return realpath(path, resolved);
    char buffer[PATH_MAX];
    return realpath(path, buffer) == NULL ? NULL : kl_heap_strdup(heap, buffer);
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
    if (heap == &backing) return backing_owns(block);
    return block_is_ours(block) && block_first_class(block) == shared_from(heap);
}

bool kl_heap_owns(kl_heap_t* heap, const void* address) {
    if (heap == &backing) return backing_owns(address);
    return first_class_owns(shared_from(heap), address);
}

struct visit {
    kl_heap_visitor* visitor;
    void* argument;
};

static bool visit_one(void* context, const struct area* area, void* block) {
    const struct visit* visit = context;
    struct kl_heap_area told = {area->blocks, area->reserved_bytes, area->carved_bytes,
                                area->used_bytes, area->block_bytes};
    return visit->visitor(&told, block, visit->argument);
}

bool kl_heap_visit(kl_heap_t* heap, bool blocks, kl_heap_visitor* visitor, void* argument) {
    struct visit visit = {visitor, argument};
    if (heap == &backing) return backing_visit(blocks, visit_one, &visit);
    return first_class_visit(shared_from(heap), blocks, visit_one, &visit);
}

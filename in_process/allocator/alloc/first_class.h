// First-class heaps, the half that allocates: a heap that any thread may allocate from, and that can
// be ended with all its blocks. Allocation borrows the code of the threads' heaps: whoever holds the
// lock puts the heap in the place of its own for the length of the call.
#ifndef KEEL_ALLOCATOR_ALLOC_FIRST_CLASS_H
#define KEEL_ALLOCATOR_ALLOC_FIRST_CLASS_H

#include "allocator/alloc/area.h"
#include "allocator/alloc/shared.h"
#include "allocator/heap/pool.h"

// All of its memory is from `region` unless that is NULL; it holds no more than limit_bytes unless that is 0.
// NULL: no memory, or the region has been removed.
struct shared* first_class_new(struct region* region, size_t limit_bytes);

// Sets the limit; what it was before.
size_t first_class_limit(struct shared* shared, size_t bytes);

// The blocks stay; the heap ends with the last of them. Its free memory goes back now.
void first_class_delete(struct shared* shared);

// All blocks end with the heap. Linear in its pages.
void first_class_destroy(struct shared* shared);

// Gives back what is not in use.
void first_class_collect(struct shared* shared);

struct request {
    size_t size;
    size_t alignment; // a power of two; with an offset at most 64 KiB
    size_t offset;    // block + offset is a multiple of the alignment
    bool zero;        // up to the end of the block
};
// NULL: no memory.
void* first_class_allocate(struct shared* shared, struct request request);

// The heap of a block that is Keel's; NULL: a thread's, or nobody's.
struct shared* block_first_class(const void* block);

// True if the address is in a page of the heap, in a carved block.
bool first_class_owns(struct shared* shared, const void* address);

// As area_visit for all its pages; the heap is locked meanwhile.
bool first_class_visit(struct shared* shared, bool blocks, area_visitor* visit, void* context);

// The heap that the calling thread's malloc takes from, NULL for its own. False: no memory.
struct shared* first_class_default(void);
bool first_class_set_default(struct shared* shared);

// True if the calling thread's malloc must ask first_class_default(). Its bins are empty then, so that
// slow paths alone need to look.
KEEL_INLINE bool first_class_diverts(void) {
    return ((uintptr_t)thread_heap & HEAP_SHARED) != 0;
}

// The calling thread's own heap, whatever its default is. NULL: it has none.
struct heap* first_class_own(void);

// The calling thread's own heap in its place for a while, whatever its default is; `own_leave` gets what
// `own_enter` gave.
struct heap* first_class_own_enter(void);
void first_class_own_leave(struct heap* before);

#endif

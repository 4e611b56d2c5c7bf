// The live blocks of a heap.
#ifndef KEEL_TESTS_LIVE_H
#define KEEL_TESTS_LIVE_H

#include <keel/heap.h>

static inline bool live_count(const struct kl_heap_area* area, void* block, void* count) {
    (void)area;
    if (block != NULL) ++*(size_t*)count;
    return true;
}
static inline size_t live_blocks(kl_heap_t* heap) {
    size_t count = 0;
    kl_heap_visit(heap, true, live_count, &count);
    return count;
}

#endif

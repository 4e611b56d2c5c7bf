// Small blocks that shrink and grow again.
//
// realloc copies a small block that shrinks to less than half, because this saves memory. If the
// program soon lets the block grow again, it is copied once more, and nothing was saved. Therefore
// a heap watches every SHRUNK_INTERVAL-th block that shrinks:
//
//   shrinks, watched --> grows                                    score + 1
//                  \---> does not within SHRUNK_TIMEOUT shrinks   score - SHRUNK_LOSS
//
// From SHRUNK_STAY on, blocks that shrink stay where they are. Bound: if SHRUNK_SPARE_MAX bytes
// were left unused in this way since a watched block has grown, that is SHRUNK_LOSS twice.
//
// What defeats it: more than some 1,000 blocks that are resized in turn, because a watched block
// then grows too late. All calls take O(1).
#ifndef KEEL_ALLOCATOR_ALLOC_SHRUNK_H
#define KEEL_ALLOCATOR_ALLOC_SHRUNK_H

#include "allocator/heap/heap.h"

#define SHRUNK_TIMEOUT 1024u
#define SHRUNK_INTERVAL 8u
#define SHRUNK_STAY 3u
#define SHRUNK_SCORE_MAX 8u
#define SHRUNK_LOSS 2u
#define SHRUNK_SPARE_MAX ((uint32_t)1 << 20)

// True: blocks stay, so those that grow in place count, too.
KEEL_INLINE bool shrunk_may_stay(const struct heap* heap) {
    return heap->shrunk.score >= SHRUNK_STAY;
}

// Counts a block that shrinks. False: it is copied and not watched. Owner only, as all.
KEEL_INLINE bool shrunk_matters(struct heap* heap) {
    return ++heap->shrunk.shrinks % SHRUNK_INTERVAL == 0 || shrunk_may_stay(heap);
}

// A small block of `usable` bytes gets less than half of them. True: it should stay where it is.
bool shrunk_stays(struct heap* heap, const void* address, size_t usable, size_t size);

// The block that shrank is at `address` now. Watches it, if it should be and there is a place.
void shrunk_watch(struct heap* heap, const void* address, size_t size);

// A block gets another size, and is not copied because it shrinks.
void shrunk_grows(struct heap* heap, const void* address, size_t size);

#endif

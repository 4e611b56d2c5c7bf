// Guarded sampling: which allocations get a guarded block.
//
// Each allocation is chosen with the probability 1 / rate, independently of all others. A heap
// draws for each size class how many allocations to serve before the next chosen one
// (heap->guard_left, geometrically distributed), and subtracts the blocks that a refill puts into
// the bin. A refill that would go beyond the chosen allocation ends just before it. So the bin is
// empty when that allocation comes, which therefore takes the slow path; the fast path does not
// know about sampling. Large blocks have a count of their own.
//
// To end a list in its middle, the refill follows its links. Where that would take too many steps,
// it leaves the list whole, and an allocation from the next list is chosen instead. If a list is
// longer than the rate, it is cut into several.
//
// Not in the secure and the debug flavour. Not for blocks of arenas, and not where a heap returns
// addresses inside blocks (alignment at an offset).
#ifndef KEEL_ALLOCATOR_GUARDED_SAMPLE_H
#define KEEL_ALLOCATOR_GUARDED_SAMPLE_H

#include "allocator/heap/pool.h"
#include "os/fault.h"

#define SAMPLE_LARGE CLASS_COUNT // the index of large blocks in guard_left
#define SAMPLE_WALK_MAX 256u     // links that one refill follows to end its list

extern atomic_word sample_rate; // 0: off

KEEL_INLINE bool sample_is_on(void) {
    return !KEEL_SECURE && !KEEL_DEBUG && KEEL_UNLIKELY(atomic_get(&sample_rate) != 0);
}

// Called once, at process start, after the options are set.
void sample_start(void);
// Called when the libraries of the program are loaded: prepares call stacks and the fault handler.
void sample_loaded(void);

// A refill has taken `count` blocks from the page: one for the allocation that is served now, and
// the list *rest. Ends the list if there are more than allocations before the chosen one, and puts
// the others back.
void sample_cut(struct heap* heap, struct page* page, struct block** rest, uint32_t count);

// True: the next allocation of this class is chosen. The caller has found the bin empty. Draws if
// necessary.
bool sample_is_due(struct heap* heap, unsigned size_class);
// Counts a large allocation. True: it is chosen.
bool sample_large(struct heap* heap);

// A guarded block for an allocation that is chosen. NULL: no place.
struct page* sample_take(struct heap* heap, unsigned size_class, size_t size, size_t alignment);

#endif

// The guard of small blocks, in the secure flavour: a state word at the end of each block, and
// links that only Keel can read. In the plain flavour the functions here leave only the plain link.
//
//   a block of a class of 80 bytes
//   0      8                                     72       80
//   | link | the program's bytes ............... | state  |     usable: 72 bytes
//
//   mask  = key ^ address of the block            the key is a random number of the process
//   state = mask                                  live
//         | ~mask ^ thread << 42                  free; `thread` freed it (0: not known)
//   link  = next ^ mask                           in a free block; 0 in a live one
//
// free verifies that the block is live. Therefore these errors are found at the free: a second
// free, a free of any address that is not a live block, and a write over the end of a block. malloc
// verifies that the block is free. Therefore a write to the link or the state of a free block is
// found at the latest when malloc returns the block. An attacker who has not read a state or a link
// guesses a state with a probability of 2^-41.
//
// The key can be computed from a state or a link and its address. Therefore no block that malloc
// returns contains such a word: malloc removes the link, and when a page ends, the words of all its
// blocks are removed. Those of large blocks are removed, too (large.h).
#ifndef KEEL_ALLOCATOR_PAGE_BLOCK_GUARD_H
#define KEEL_ALLOCATOR_PAGE_BLOCK_GUARD_H

#include "allocator/page/size_class.h"
#include "allocator/slices/page_map.h"
#include "base/panic.h"
#include <stdbool.h>

#define STATE_THREAD_SHIFT 42 // 22 bits: the greatest number of a thread on Linux
#define PAGE_BYTES_MAX (WIDE_PAGE_SLICES * SLICE_BYTES)

// Requests: the sizes that the program asks for, without the state word.
#define REQUEST_SMALL_MAX (SMALL_BYTES_MAX - BLOCK_STATE_BYTES)
#define REQUEST_CLASS_MAX (CLASS_BYTES_MAX - BLOCK_STATE_BYTES)

// size <= REQUEST_SMALL_MAX.
KEEL_INLINE unsigned request_class_small(size_t size) {
    return size_class_of_small(size + BLOCK_STATE_BYTES);
}
// size <= REQUEST_CLASS_MAX.
KEEL_INLINE unsigned request_class(size_t size) {
    return size_class_of(size + BLOCK_STATE_BYTES);
}
// As size_class_aligned.
KEEL_INLINE unsigned request_class_aligned(size_t size, size_t alignment) {
    if (size > REQUEST_CLASS_MAX) return CLASS_COUNT;
    return size_class_aligned(size + BLOCK_STATE_BYTES, alignment);
}
KEEL_INLINE size_t request_class_usable(unsigned size_class) {
    return size_class_bytes[size_class] - BLOCK_STATE_BYTES;
}

// Alone in its system page, which is read-only once the key is chosen.
struct block_guard {
    KEEL_ALIGNED(4096) uintptr_t key; // 0: not chosen yet
    uint32_t zero; // 1: free zeroes the block, and its reuse verifies that it is zero
};
extern struct block_guard block_guard;

// Chooses the key of the process. The key never changes; every thread calls this before it makes
// its first block.
void block_guard_prepare_slow(void);
KEEL_INLINE void block_guard_prepare(void) {
    if (KEEL_SECURE && KEEL_UNLIKELY(block_guard.key == 0)) block_guard_prepare_slow();
}

KEEL_INLINE uintptr_t block_mask(const void* block) {
    return KEEL_SECURE ? block_guard.key ^ (uintptr_t)block : 0;
}

KEEL_INLINE struct block* block_next(const struct block* block) {
    return (struct block*)((uintptr_t)block->next ^ block_mask(block));
}
KEEL_INLINE void block_set_next(struct block* block, const struct block* next) {
    block->next = (struct block*)((uintptr_t)next ^ block_mask(block));
}

KEEL_INLINE uint64_t* block_state(const void* block, uint32_t block_bytes) {
    return (uint64_t*)((uintptr_t)block + block_bytes - sizeof(uint64_t));
}
KEEL_INLINE bool state_is_free(uint64_t state, uintptr_t mask) {
    return (state ^ ~mask) << (64 - STATE_THREAD_SHIFT) == 0;
}

// Ends the process, with the fault that the state of the block shows. `page` is that of the
// address, not an interior one.
KEEL_COLD KEEL_NORETURN void block_fault_at_free(const struct page* page, const void* address);
KEEL_COLD KEEL_NORETURN void block_fault_at_malloc(const void* block, uint32_t block_bytes);

// Between the link and the state.
KEEL_COLD void block_zero(void* block, uint32_t block_bytes);
KEEL_COLD bool block_is_zero(const void* block, uint32_t block_bytes);

// A new block: free, by no thread.
KEEL_INLINE void block_carve(struct block* block, uint32_t block_bytes) {
    if (KEEL_SECURE && block_guard.zero != 0) block_zero(block, block_bytes);
    if (KEEL_SECURE) *block_state(block, block_bytes) = ~block_mask(block);
}

// True: a block that the page has room for begins at the address, and it is live.
KEEL_INLINE bool block_is_live(const struct page* page, const void* address) {
    if ((uintptr_t)address - (uintptr_t)page->start > page->last_block) return false;
    return *block_state(address, page->block_bytes) == block_mask(address);
}

// The program frees the block. `thread` is the caller's.
KEEL_INLINE void block_free(const struct page* page, void* address, uint32_t thread) {
    if (!KEEL_SECURE) return;
    if (KEEL_UNLIKELY(!block_is_live(page, address))) block_fault_at_free(page, address);
    *block_state(address, page->block_bytes) = ~block_mask(address) ^ (uint64_t)thread
                                                                          << STATE_THREAD_SHIFT;
}
// The same, and zeroes the block if KEEL_ZERO_ON_FREE is set. Apart, because a call that returns
// would cost the fast path its registers.
KEEL_INLINE void block_free_zeroed(const struct page* page, void* address, uint32_t thread) {
    block_free(page, address, thread);
    if (KEEL_SECURE && block_guard.zero != 0) block_zero(address, page->block_bytes);
}

// True: a free block, or the end of the list, follows. `next` is as near as a block of the same
// page.
KEEL_INLINE bool block_link_is_possible(const struct block* block, const struct block* next) {
    uintptr_t distance = (uintptr_t)next - (uintptr_t)block + PAGE_BYTES_MAX;
    return distance < 2 * PAGE_BYTES_MAX || next == NULL;
}

// The block after a free one. Ends the process if the link has been written to.
KEEL_INLINE struct block* block_next_possible(const struct block* block, uint32_t block_bytes) {
    struct block* next = block_next(block);
    if (KEEL_SECURE && KEEL_UNLIKELY(!block_link_is_possible(block, next)))
        block_fault_at_malloc(block, block_bytes);
    return next;
}

// Gives a free block to the program. Returns the block after it. The program must not find the
// link, from which it could compute the key.
KEEL_INLINE struct block* block_take(struct block* block, uint32_t block_bytes) {
    if (!KEEL_SECURE) return block_next(block);
    uint64_t* state = block_state(block, block_bytes);
    uintptr_t mask = block_mask(block);
    struct block* next = (struct block*)((uintptr_t)block->next ^ mask);
    if (KEEL_UNLIKELY(!state_is_free(*state, mask) || !block_link_is_possible(block, next)))
        block_fault_at_malloc(block, block_bytes);
    *state = mask;
    block->next = NULL;
    return next;
}

// A block that other threads have freed: verifies that its page may have such a block and that it
// is free.
KEEL_INLINE void block_require_free(const void* block) {
    if (!KEEL_SECURE) return;
    const struct page* page = page_around(block);
    uint32_t bytes = page->block_bytes;
    bool possible = bytes != 0 && (uintptr_t)block - (uintptr_t)page->start <= page->last_block;
    if (!possible || !state_is_free(*block_state(block, bytes), block_mask(block)))
        block_fault_at_malloc(block, possible ? bytes : 0);
}

#endif

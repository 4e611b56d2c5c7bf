// Large blocks: blocks of more than 64 KiB. Each is a run of slices or a mapping (large/jumbo.h),
// or, where the address space is scarce, shares its first and last slice (space/packed.h).
// Any thread releases a large block directly, with one atomic operation on its superblock. The heap
// from which it was allocated is recorded (alloc/allocate.c), but the release does not use it.
#ifndef KEEL_ALLOCATOR_LARGE_LARGE_H
#define KEEL_ALLOCATOR_LARGE_LARGE_H

#include "allocator/page/block_guard.h"
#include "allocator/space/packed.h"
#include "allocator/space/page_map.h"
#include <stdbool.h>

struct large {
    void* start; // NULL: no memory
    bool zero;   // all of it is known to be zero
};

// No process has this much address space: x86-64 gives it 128 TiB.
#define LARGE_BYTES_MAX (((size_t)1 << 47) - WINDOW_BYTES)

// False: no system can satisfy the request.
KEEL_INLINE bool large_is_possible(size_t bytes, size_t alignment) {
    return bytes <= LARGE_BYTES_MAX && alignment <= WINDOW_BYTES * 64;
}

// Any size is allowed. The alignment is a power of two. `populates`: this thread may populate a
// unit of 2 MiB for the block.
struct large large_allocate(size_t bytes, size_t alignment, bool populates);

// Allocates from this arena only.
struct arena;
struct large large_allocate_in(struct arena* arena, size_t bytes, size_t alignment);

// Allocates for a block that has grown and may grow again. Below LARGE_MOVABLE_BYTES it takes
// slices with free slices after them, but where the process holds too much idle memory, that. From
// that size on it takes a mapping, which grows by moving page tables.
#define LARGE_MOVABLE_BYTES ((size_t)4 << 20)
struct large large_allocate_movable(size_t bytes);

// The secure flavour has state words behind the last usable byte of a large block, all the same:
// the key ^ the block's address ^ the usable size. It asks for LARGE_STATE_BYTES more, for them and
// for the least usable size. The size is that of the request, so the words may be at any address;
// it is shifted, so that the lowest bits are those of the key (key_of in page/block_guard.c).
#define LARGE_STATE_WORDS 8u // so that a write a little further behind is found, too
#define LARGE_USABLE_MIN 16u // in the secure flavour: room for a word at the start (mark_freed)
#define LARGE_STATE_BYTES                                                                          \
    (KEEL_SECURE ? LARGE_STATE_WORDS * sizeof(uint64_t) + LARGE_USABLE_MIN : 0)
typedef uint64_t __attribute__((aligned(1), may_alias)) large_state_word;

// Returns a size that is usable in every large block for a request of `size` bytes: that of a
// packed block. A run of slices or a mapping has more. In the secure flavour exactly this size is
// usable.
KEEL_INLINE size_t large_good_size(size_t size) {
    if (KEEL_SECURE) return size < LARGE_USABLE_MIN ? LARGE_USABLE_MIN : size;
    return round_up(size, PACKED_UNIT);
}

KEEL_INLINE large_state_word* large_state(const struct page* page) {
    return (large_state_word*)(page->start + page->usable);
}
KEEL_INLINE uint64_t large_state_value(const struct page* page) {
    return block_mask(page->start) ^ (uint64_t)page->usable << 8;
}

// For the secure flavour: sets the usable size to that of a request of `size` bytes.
void large_seal(struct page* page, size_t size);

// Removes the state words, from which a program that reads memory before it writes to it could
// compute the key: before they become a part of this block or of another one.
void large_unseal(const struct page* page);
// Writes them again.
void large_reseal(const struct page* page);

// Ends the process if a state word is overwritten.
void large_verify_state(const struct page* page);
KEEL_INLINE void large_verify(const struct page* page) {
    if (KEEL_SECURE) large_verify_state(page);
}

// True if the address is in a large block, but not in its first slice. Linear in the address space
// of two windows: for faults. Finds only blocks that begin in the address's window or in the one
// before it.
bool large_contains(const void* address);

// For the secure flavour: ends the process if a freed block that begins at the address is in
// quarantine. At most 32 steps.
void large_require_not_freed(const void* address);

// Begins a block on memory of the caller. `flags` are those of its page (page_map.h).
void large_enter(char* start, size_t bytes, uintptr_t flags);

// The same on slices whose content is unknown.
void large_begin(char* start, size_t slices);

// Ends a block with PAGE_LARGE; its slices are the caller's then.
void large_end(struct page* page);

// `page` has PAGE_LARGE or PAGE_JUMBO. In the secure flavour, slices outside of arenas first wait
// in a quarantine of at most QUARANTINE_PLACES blocks, and of at most this share of the memory that
// the process holds, within the bounds (or of one block).
#define LARGE_QUARANTINE_SHARE 16
#define LARGE_QUARANTINE_MIN ((size_t)512 << 10)
#define LARGE_QUARANTINE_MAX ((size_t)4 << 20)
void large_release(struct page* page);

// The quarantine (large_quarantine.c). Enters it with a live block of slices, which ends.
void large_quarantine_enter(struct page* page);

// For the keeper: puts guards over the blocks that have been in quarantine for `delay_ms`, and
// returns their memory. True: some block is not as old yet.
bool large_quarantine_guard(uint64_t now_ms, uint64_t delay_ms);

// Releases what is in quarantine: for a process that has no other memory left.
void large_quarantine_end(void);

// In a child of fork.
void large_quarantine_forget(void);

// Verifies the quarantine; only when no other thread is active.
bool large_quarantine_check(void);

// Zeroes the block. System pages of a mapping that have no memory still have none afterwards.
void large_zero(struct page* page);

// Resizes without copying: in place, into the slices after the block, or by moving page tables. If
// this is not possible, changes nothing and returns NULL.
void* large_resize(struct page* page, size_t bytes);

#endif

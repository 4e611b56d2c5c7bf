// From any address to the metadata of its slice, without a branch.
//
//   address  |  window: bits 32..47  |  slice: bits 16..31  |  byte in slice: bits 0..15  |
//
//   page_map.offset[window] = distance from page_map.dummy to the window's 65,536 `struct page`
//   page_of(address)        = dummy + offset[window] + 32 * slice
//
// A window without memory of Keel's has offset 0 and thus leads into `dummy`, which is always zero
// (BSS without write access, which the kernel backs with its shared zero page). Its owner is 0,
// which is no heap's address. So NULL, foreign pointers and pointers older than the allocator fail
// the same comparison as blocks of other threads, and take the slow path.
//
// The metadata is out of line and dense. Headers inside 64 KiB-aligned pages would all fall in the
// same set of the first-level cache (39-42 ns a free at 2,048 live pages, against 8.5-9.4 ns with
// this layout). It consists of three arrays with a cache line for each slice, PAGE_PART_DISTANCE
// apart: the fields that every freeing thread reads, those that the owner writes at every free, and
// those that other threads write when they free. In one cache line, each free by another thread
// would wait for the line to arrive from the owner, and each free by the owner for the line to
// arrive from the other thread. None of the three needs a whole cache line, but neighbouring slices
// often belong to different threads.
#ifndef KEEL_ALLOCATOR_SPACE_PAGE_MAP_H
#define KEEL_ALLOCATOR_SPACE_PAGE_MAP_H

#include "allocator/space/page_metadata.h"
#include "base/address.h"

#define WINDOW_SHIFT 32
#define WINDOW_BYTES (UINT64_C(1) << WINDOW_SHIFT)
#define WINDOW_COUNT (1u << (ADDRESS_BITS - WINDOW_SHIFT))
#define SLICE_SHIFT 16
#define SLICE_BYTES ((size_t)1 << SLICE_SHIFT)
#define WINDOW_SLICES ((size_t)1 << (WINDOW_SHIFT - SLICE_SHIFT))
#define SUPERBLOCK_SLICES 64u
#define SUPERBLOCK_BYTES (SLICE_BYTES * SUPERBLOCK_SLICES)
#define WINDOW_SUPERBLOCKS ((unsigned)(WINDOW_SLICES / SUPERBLOCK_SLICES))

#define PAGE_PARTS 3u
#define PAGE_PART_DISTANCE (WINDOW_SLICES * sizeof(struct page))
KEEL_INLINE struct page_use* page_use(const struct page* page) {
    return (struct page_use*)((uintptr_t)page + PAGE_PART_DISTANCE);
}
KEEL_INLINE struct page_remote* page_remote(const struct page* page) {
    return (struct page_remote*)((uintptr_t)page + 2 * PAGE_PART_DISTANCE);
}

struct page_map {
    atomic_word offset[WINDOW_COUNT];
    struct page dummy[WINDOW_SLICES]; // without the other two arrays
};
extern KEEL_HIDDEN struct page_map page_map;

// The metadata at a distance from `dummy`. Both tables are reached from one register.
KEEL_INLINE struct page* page_map_reach(size_t slice, size_t window) {
    const char* base = (const char*)page_map.dummy;
    KEEL_OPAQUE(base);
    const uintptr_t* offsets = (const uintptr_t*)(base - sizeof page_map.offset);
    return (struct page*)(base + (slice * sizeof(struct page) + offsets[window]));
}

// Wait-free, any thread, any address of 48 bits. The entry is read plainly, which lets the compiler
// use it as an operand. It is written once, before any block in its window exists, so every thread
// that holds a block has seen it.
KEEL_INLINE struct page* page_of(const void* address) {
    uintptr_t a = (uintptr_t)address;
    return page_map_reach((uint32_t)a >> SLICE_SHIFT, a >> WINDOW_SHIFT);
}

// The same for any 64-bit value, without regard to the bits that an address does not have. For the
// secure flavour, whose free compares the whole address with that of the page.
KEEL_INLINE struct page* page_of_low(const void* address) {
    uintptr_t a = (uintptr_t)address;
    size_t window = (uint32_t)(a >> WINDOW_SHIFT) % WINDOW_COUNT;
    return page_map_reach((uint32_t)a >> SLICE_SHIFT, window);
}

// The same for any 64-bit value. For a value that cannot be an address it returns metadata without
// an owner. free uses page_of, which is shorter, but crashes for such a value.
KEEL_INLINE struct page* page_of_any(const void* address) {
    return address_is_possible(address) ? page_of(address_untagged(address)) : page_map.dummy;
}

// Bytes of each of its blocks, or of the large block that it is, for the program's use.
KEEL_INLINE size_t page_usable_bytes(const struct page* page) {
    if (page->block_bytes != 0) return page->block_bytes - BLOCK_STATE_BYTES;
    return KEEL_SECURE ? page->usable : page->bytes;
}

// True if the page is one large block.
KEEL_INLINE bool page_is_large(const struct page* page) {
    return (atomic_get(&page->owner) & (PAGE_LARGE | PAGE_JUMBO)) != 0;
}

KEEL_INLINE bool page_is_guarded(const struct page* page) {
    return (atomic_get(&page->owner) & PAGE_GUARDED) != 0;
}

// The page of a live small block: the metadata of its first slice.
KEEL_INLINE struct page* page_of_block(const void* block) {
    struct page* page = page_of(block);
    return page - page->distance;
}

// The page that contains the address, or the metadata of its slice if there is none.
KEEL_INLINE struct page* page_around(const void* address) {
    struct page* page = page_of_any(address);
    return (atomic_get(&page->owner) & PAGE_INTERIOR) != 0 ? page - page->distance : page;
}

// The metadata of a window, slice by slice; NULL where Keel has no memory.
KEEL_INLINE struct page* page_map_window(size_t window) {
    uintptr_t offset = atomic_get_acquire(&page_map.offset[window]);
    return offset == 0 ? NULL : (struct page*)((char*)page_map.dummy + offset);
}

#endif

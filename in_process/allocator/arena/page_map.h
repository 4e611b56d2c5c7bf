// From an address to the metadata of its slice, for any address at all, without a branch.
//
//   address  |  window: bits 32..47  |  slice: bits 16..31  |  byte in slice: bits 0..15  |
//
//   page_map.offset[window] = distance from page_map.dummy to the window's array of 65,536 `struct page`
//   page_of(address)        = dummy + offset[window] + 32 * slice
//
// A window that Keel knows nothing about has offset 0 and thus leads into `dummy`, which is all
// zero for ever (BSS that is never written, so the kernel backs it with its one zero page). Its
// owner is 0, no thread's heap has that address, and so NULL, foreign pointers and pointers older
// than the allocator fall to the slow path by the same comparison that finds blocks of other
// threads.
//
// Metadata stands out of line, dense, 64 bytes a slice: headers inside 64 KiB-aligned pages would
// all fall in the same set of the first-level cache (39-42 ns a free at 2,048 live pages, against
// 8.5-9.4 ns so). It stands in two arrays of 32 bytes a slice, PAGE_USE_DISTANCE apart: what any thread
// that frees a block reads, and what the owner writes at every free. Were they on one line, each
// free of a block by another thread would wait for the line to come over from the owner.
#ifndef KEEL_ALLOCATOR_ARENA_PAGE_MAP_H
#define KEEL_ALLOCATOR_ARENA_PAGE_MAP_H

#include "base/atomic.h"
#include <stddef.h>
#include <stdint.h>

#define WINDOW_SHIFT 32
#define WINDOW_BYTES (UINT64_C(1) << WINDOW_SHIFT)
#define WINDOW_COUNT 65536 // 48 bits of user addresses
#define SLICE_SHIFT 16
#define SLICE_BYTES ((size_t)1 << SLICE_SHIFT)
#define WINDOW_SLICES ((size_t)1 << (WINDOW_SHIFT - SLICE_SHIFT))
#define SUPERBLOCK_SLICES 64u
#define SUPERBLOCK_BYTES (SLICE_BYTES * SUPERBLOCK_SLICES)
#define WINDOW_SUPERBLOCKS ((unsigned)(WINDOW_SLICES / SUPERBLOCK_SLICES))

// A free block: its first word links it to the next of its list.
struct block {
    struct block* next;
};

// Flags in the low bits of `owner`. Any of them makes the comparison in free fail, which is how the
// one comparison covers them all.
enum {
    PAGE_INTERIOR = 2, // not the first slice of its page: `distance` slices back is the page
    // A run of slices that is one block. The heap beside the flag is the one that it was allocated from; any
    // thread may release it. 0: a thread without a heap has it made.
    PAGE_LARGE = 4,
    PAGE_JUMBO = 8, // a mapping of its own that is one block; likewise
    PAGE_FLAGS = 63
};

// A page: a run of slices that holds blocks of one size, or one large block. Lives in the metadata
// of its first slice. Written when the page begins and when it ends, and constant in between: any
// thread that holds a live block of the page may read it.
//
//   0       8       16      24            28         30      31         32
//   | owner | start | bytes | block_bytes | capacity | class | distance |
struct page {
    atomic_word owner;    // heap | flags; 0: no page begins here
    char* start;          // address of block 0
    size_t bytes;         // slices * 64 KiB; for a jumbo its mapped bytes
    uint32_t block_bytes; // size of a block, 8..65536; 0 for large and jumbo
    uint16_t capacity;    // == slices * 64 KiB / block_bytes
    uint8_t size_class;   // index into the table of size classes
    uint8_t distance;     // PAGE_INTERIOR: slices back to the first one, 1..3
};
_Static_assert(sizeof(struct page) == 32, "half a cache line, and the shift in page_of");

// The owner's half of a page of small blocks: only the thread that holds the owning heap touches it
// (and see heap/relief.h).
//
//   0      8            16           20       22     23      24     32
//   | next | local_free | until_look | carved | list | fresh | prev |
struct page_use {
    struct page* next;
    // Free blocks that the owner knows of, not counting those in the heap's bin.
    struct block* local_free;
    // Frees by the owner until somebody must look at the page. As a rule the blocks in use, which is
    // carved - length(local_free): those with the program, in the bin, or on the way home. 1 in a full page,
    // of which all are in use: its next free block puts it back into a queue.
    uint32_t until_look;
    // Blocks 0..carved-1 exist; the memory behind has never been written by this page.
    uint16_t carved;
    atomic_small list; // enum page_list: where next/prev link it. Others may read it
    uint8_t fresh;     // enum page_fresh: what is known of the memory behind the carved blocks
    struct page* prev;
};
_Static_assert(sizeof(struct page_use) == sizeof(struct page), "one place, two arrays");

#define PAGE_USE_DISTANCE (WINDOW_SLICES * sizeof(struct page))
KEEL_INLINE struct page_use* page_use(const struct page* page) {
    return (struct page_use*)((uintptr_t)page + PAGE_USE_DISTANCE);
}

struct page_map {
    struct page dummy[WINDOW_SLICES]; // nobody's, so without the owner's half
    atomic_word offset[WINDOW_COUNT];
};
extern struct page_map page_map;

// Wait-free, any thread, any address of 48 bits. The entry is read plainly, which lets the compiler
// use it as an operand: it is written once, before any block in its window exists, so whoever has a
// block has seen it.
KEEL_INLINE struct page* page_of(const void* address) {
    uintptr_t a = (uintptr_t)address;
    const char* base = (const char*)&page_map; // both tables are reached from this one register
    KEEL_OPAQUE(base);
    const uintptr_t* offsets = (const uintptr_t*)(base + offsetof(struct page_map, offset));
    size_t slice = (uint32_t)a >> SLICE_SHIFT;
    return (struct page*)(base + (slice * sizeof(struct page) + offsets[a >> WINDOW_SHIFT]));
}

// Bytes of each of its blocks, or of the large one that it is.
KEEL_INLINE size_t page_usable_bytes(const struct page* page) {
    return page->block_bytes != 0 ? page->block_bytes : page->bytes;
}

// True if it is one block.
KEEL_INLINE bool page_is_large(const struct page* page) {
    return (atomic_get(&page->owner) & (PAGE_LARGE | PAGE_JUMBO)) != 0;
}

// The page of a small block that is somebody's: the metadata of its first slice.
KEEL_INLINE struct page* page_of_block(const void* block) {
    struct page* page = page_of(block);
    return page - page->distance;
}

// The same for any address: the page that it is in, or the metadata of its slice where there is none.
KEEL_INLINE struct page* page_around(const void* address) {
    struct page* page = page_of(address);
    return (atomic_get(&page->owner) & PAGE_INTERIOR) != 0 ? page - page->distance : page;
}

// The metadata of a window, slice by slice; NULL where nothing of ours lies.
KEEL_INLINE struct page* page_map_window(size_t window) {
    uintptr_t offset = atomic_get_acquire(&page_map.offset[window]);
    return offset == 0 ? NULL : (struct page*)((char*)page_map.dummy + offset);
}

#endif

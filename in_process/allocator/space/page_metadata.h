// The metadata of a page: a run of slices that holds blocks of one size, or one large block.
#ifndef KEEL_ALLOCATOR_SPACE_PAGE_METADATA_H
#define KEEL_ALLOCATOR_SPACE_PAGE_METADATA_H

#include "base/atomic.h"
#include <stddef.h>
#include <stdint.h>

// A free block: its first word links it to the next block of its list (page/block_guard.h reads and
// writes the links).
struct block {
    struct block* next;
};

// At the end of each block, behind the program's bytes (page/block_guard.h).
#define BLOCK_STATE_BYTES (KEEL_SECURE ? sizeof(uint64_t) : (size_t)0)

// Flags in the low bits of `owner`. Each of them makes the comparison in free_block fail, so that
// one comparison covers all cases.
enum {
    // With PAGE_LARGE: a packed block (space/packed.h). Its `start` is anywhere in its slice, and
    // `bytes` is a multiple of 64.
    PAGE_PACKED = 1,
    PAGE_INTERIOR = 2, // not the first slice of its page: the page begins `distance` slices before
    // A run of slices that is one block. The heap beside the flag is the one that it was allocated
    // from (0: a thread without a heap allocated it); any thread may release it.
    PAGE_LARGE = 4,
    PAGE_JUMBO = 8, // a mapping that is one block; likewise
    // All blocks are used, and none is left to carve: used == carved == capacity. The page is in no
    // list; the first free of one of its blocks puts it back into a queue. Only on first slices.
    PAGE_FULL = 16,
    // With PAGE_JUMBO: a block that guarded sampling has placed (guarded/guarded.h). Its `start` is
    // anywhere in its slice, `bytes` is the requested size, and `size_class` its row of statistics.
    PAGE_GUARDED = 32,
    PAGE_FLAGS = 63
};

// The half of the metadata that any thread reads, in the entry of the page's first slice. It is
// written when the page begins and when it ends; in between only the flag PAGE_FULL changes. Any
// thread that holds a live block of the page may read it.
//
//   0       8       16      24            28         30      32    48         49          50   52
//   | owner | start | bytes | block_bytes | capacity | class | ... | distance | partition | .. |
//
//   32         40       48          52           56       64
//   | fast_end | usable | see above | reciprocal | states |   read in the secure flavour only
struct page {
    KEEL_ALIGNED(KEEL_CACHE_LINE)
    atomic_word owner;    // heap | flags; 0: no page begins here
    char* start;          // address of block 0
    size_t bytes;         // slices * 64 KiB; for a jumbo its mapped bytes
    uint32_t block_bytes; // size of a block, 8..65536; 0 for large and jumbo
    uint16_t capacity;    // == slices * 64 KiB / block_bytes
    uint16_t size_class;  // index into the table of size classes
    size_t fast_end;      // page_last + 1; 0: no free takes the fast path
    size_t usable;        // of a large block: its bytes before its state word
    uint8_t distance;     // PAGE_INTERIOR: slices back to the first one, 1..63
    uint8_t partition;    // of a large block (partition.h); that of small blocks is in size_class
    uint8_t sparse;       // of a large block, 1: it is on cold memory (policy_begin_sparse)
    uint32_t reciprocal;  // of block_bytes / 16, times 2^31, rounded up (checked_copy.c)
    char* states;         // start + block_bytes - 8: the state word of block 0
};
_Static_assert(sizeof(struct page) == KEEL_CACHE_LINE, "no line with that of another thread");

// The owner's half of a page of small blocks. Only the thread that holds the owning heap writes it
// (exception: heap/relief.h). Invariant: used + free blocks == carved <= capacity.
//
//   0      8            16     20       22     23      24     32       34        35
//   | next | local_free | used | carved | list | fresh | prev | resident | absent | has_own |
//
//   36            38      40           48          56            64
//   | chain_place | order | chain_tail | queue_end | queue_first |     secure flavour, has_own too
struct page_use {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct page* next;
    struct block* local_free; // plain flavour: free blocks, without those in the heap's bin
    uint32_t used;            // blocks that the program, a bin, a batch or a remote list holds
    uint16_t carved;   // blocks 0..carved-1 exist; this page never wrote the memory behind them
    atomic_small list; // enum page_list: the list that next/prev link it into
    uint8_t fresh;     // enum page_fresh: state of the memory behind the carved blocks
    struct page* prev;
    uint16_t resident; // system pages, from the page's start on, that are resident if PAGE_COLD
    // Of each slice, not of the page: system pages at its end that the last page there left cold. A
    // hint, for a free slice that counts as one that occupies memory. SLICE_ABSENT: the slice had
    // no memory when the page on it began.
    uint8_t absent;
    // The free blocks of the secure flavour (page/free_queue.h).
    uint8_t queue_has_own;    // 1: the own row is one of its rows
    uint16_t chain_place;     // the place of the last chain in its area; 0: there is no chain
    uint16_t order;           // random bits for the order of the blocks of the next refill
    struct block* chain_tail; // the last block of the last chain
    uint16_t* queue_end;      // the place behind the last entry
    uint16_t* queue_first;    // the place of the first entry
};
_Static_assert(sizeof(struct page_use) == sizeof(struct page), "one index, three arrays");

// What other threads write: the remote list of a page of small blocks. A thread that frees blocks
// of another thread's page puts them in front of the list. heap/remote_queue.h describes who takes
// them. A page whose list is not empty cannot end, because its blocks count as used.
//
//   0      8           16          24           32          40          48       56       64
//   | list | kept_head | kept_tail | kept_count | kept_next | kept_prev | shared | unused |
struct page_remote {
    KEEL_ALIGNED(KEEL_CACHE_LINE)
    atomic_word list; // block freed last | number of blocks << ADDRESS_BITS; 0: no block
    // Blocks that the keeper has taken from `list` for a heap whose thread sleeps. The consumer of
    // the heap's remote queue alone accesses these fields.
    struct block* kept_head;
    struct block* kept_tail;
    uint32_t kept_count;
    struct page* kept_next; // in the queue's list of such pages
    struct page* kept_prev;
    // Of any slice: the packed blocks that use a part of it (space/packed.c); 0: none.
    atomic_bits shared;
};
_Static_assert(sizeof(struct page_remote) == sizeof(struct page), "one index, three arrays");
_Static_assert(offsetof(struct page, owner) == 0 && offsetof(struct page_use, next) == 0 &&
                   offsetof(struct page_remote, list) == 0,
               "each part of the metadata begins a cache line");

#endif

// The guard of small blocks, in the secure flavour: a state word at the end of each block, and
// links that only Keel can read. In the plain flavour the functions here leave only the plain link.
//
//   a block of a class of 80 bytes
//   0      8                                     72       80
//   | link | the program's bytes ............... | state  |     usable: 72 bytes
//
//   mask  = key ^ address of the block            the key is a random number of the process
//   state = mask ^ tail << 42                     live; `tail` of its bytes were not requested
//         | ~mask ^ thread << 42                  free; `thread` freed it (0: not known)
//   link  = reversed(next) ^ mask                 in a free block that is in a list
//
// Most free blocks have no link, also those of a heap's bin: their order is in the metadata
// (free_queue.h). Blocks are linked in the lists of other threads, and in what free_queue.h calls a
// chain, where the last one has the link NULL. The bytes of `next` are reversed, so that a write to
// the first bytes of a block changes the high bits of the address, which are those of the page: a
// changed link then leads out of the page.
//
// free zeroes the block, and malloc verifies that it still is zero, except for its state. This is
// so in blocks of up to ZEROED_BYTES_MAX; in larger ones, where it costs more cache misses, if
// KEEL_ZERO_ON_FREE is set, else only in their first word. Blocks of more than SMALL_BYTES_MAX are
// zeroed as long as this takes little time (block_zero_rarely); the others have AS_LEFT in front of
// their state while they are free.
//
// free verifies that the block is live. Therefore these errors are found at the free: a second
// free, a free of any address that is not a live block, and a write over the end of a block. malloc
// verifies that the block is free. Therefore a write to a free block is found when malloc returns
// the block; one to its first word or its state at the latest when its page ends. An attacker who
// has not read a state or a link guesses a state with a probability of 2^-41.
//
// A block of more than SMALL_BYTES_MAX has exactly the bytes that were requested. Those behind
// them, up to the state, are its tail: they have one value, which free verifies. (A smaller block
// has up to 15 bytes more, or an eighth, and no tail.)
//
// The key can be computed from a state or a link and its address. Therefore no block that malloc
// returns contains such a word: malloc removes the link, and when a page ends, the words of all its
// blocks are removed. Those of large blocks are removed, too (large.h).
#ifndef KEEL_ALLOCATOR_PAGE_BLOCK_GUARD_H
#define KEEL_ALLOCATOR_PAGE_BLOCK_GUARD_H

#include "allocator/page/size_class.h"
#include "allocator/space/page_map.h"
#include "base/panic.h"
#include <stdbool.h>
#include <string.h>

#define STATE_THREAD_SHIFT 42 // 22 bits: the greatest number of a thread on Linux
#define PAGE_BYTES_MAX (WIDE_PAGE_SLICES * SLICE_BYTES)

// Requests: the sizes that the program asks for, without the state word.
#define REQUEST_SMALL_MAX (SMALL_BYTES_MAX - BLOCK_STATE_BYTES)
#define REQUEST_CLASS_MAX (CLASS_BYTES_MAX - BLOCK_STATE_BYTES)

// In partition 0; size <= REQUEST_SMALL_MAX.
KEEL_INLINE unsigned request_class_small(size_t size) {
    return size_class_of_small(size + BLOCK_STATE_BYTES);
}
// In the partition of the thread's allocation; size <= REQUEST_CLASS_MAX.
KEEL_INLINE unsigned request_class(size_t size) {
    return class_now(size_class_of(size + BLOCK_STATE_BYTES));
}
// As size_class_aligned, in that partition; CLASS_COUNT: none.
KEEL_INLINE unsigned request_class_aligned(size_t size, size_t alignment) {
    if (size > REQUEST_CLASS_MAX) return CLASS_COUNT;
    unsigned found = size_class_aligned(size + BLOCK_STATE_BYTES, alignment);
    return KEEL_UNLIKELY(found == SIZE_COUNT) ? CLASS_COUNT : class_now(found);
}
KEEL_INLINE size_t request_class_usable(unsigned size_class) {
    KEEL_ASSERT(size_class < CLASS_COUNT);
    return size_class_bytes[size_class] - BLOCK_STATE_BYTES;
}

#define BIN_ORDERS 64u
#define BIN_BLOCKS 16u // the blocks that one refill takes

// What malloc needs to know about a small request in partition 0, at one place.
struct request_row {
    uint16_t above_first; // the class - 1, so that a row of zeros has a class whose bin is empty
    uint8_t state_word;   // index of the block's state among its words
    uint8_t pieces;       // that free zeroes, or NOT_ZEROED
};

// Secure flavour: alone in its system page, which is read-only once the key is chosen.
struct block_guard {
    KEEL_ALIGNED(KEEL_SECURE ? 4096 : KEEL_CACHE_LINE) uintptr_t key; // 0: not chosen yet
    uint32_t zero; // 1: free zeroes blocks of all sizes, and their reuse verifies it
    // Random orders of a refill's blocks, each twice in a row: it may begin at any of its places.
    uint8_t orders[BIN_ORDERS][2 * BIN_BLOCKS];
    // BIN_NO_BLOCK; never changes.
    KEEL_ALIGNED(16) uint64_t no_block[SMALL_BYTES_MAX / sizeof(uint64_t)];
    struct request_row rows[SMALL_BYTES_MAX / 8 + 1]; // request_row
};
_Static_assert(!KEEL_SECURE || sizeof(struct block_guard) == 4096, "it can be read-only alone");
extern KEEL_HIDDEN struct block_guard block_guard;

// Is at the end of each bin (heap/bin.h). Its first word is not 0, so it is not taken for a free
// block. As large as the largest block that malloc takes from a bin without a test of its end.
#define BIN_NO_BLOCK ((struct block*)(void*)block_guard.no_block)

// size <= REQUEST_SMALL_MAX. All zero until the key is chosen.
KEEL_INLINE struct request_row request_row(const struct block_guard* guard, size_t size) {
    KEEL_ASSERT(size <= REQUEST_SMALL_MAX);
    return guard->rows[(size + BLOCK_STATE_BYTES + 7) / 8];
}

// Chooses the key of the process. The key never changes; every thread calls this before it makes
// its first block.
void block_guard_prepare_slow(void);
KEEL_INLINE void block_guard_prepare(void) {
    if (KEEL_SECURE && KEEL_UNLIKELY(block_guard.key == 0)) block_guard_prepare_slow();
}

KEEL_INLINE uintptr_t block_mask(const void* block) {
    return KEEL_SECURE ? block_guard.key ^ (uintptr_t)block : 0;
}

KEEL_INLINE uintptr_t link_order(uintptr_t address) {
    return KEEL_SECURE ? __builtin_bswap64(address) : address;
}
KEEL_INLINE struct block* block_next(const struct block* block) {
    return (struct block*)link_order((uintptr_t)block->next ^ block_mask(block));
}
KEEL_INLINE void block_set_next(struct block* block, const struct block* next) {
    block->next = (struct block*)(link_order((uintptr_t)next) ^ block_mask(block));
}

KEEL_INLINE uint64_t* block_state(const void* block, uint32_t block_bytes) {
    KEEL_ASSERT(block_bytes >= 16 && block_bytes % 16 == 0);
    return (uint64_t*)((uintptr_t)block + block_bytes - sizeof(uint64_t));
}
// 0: the state is that of a free block. (The sum of a number and its complement is -1.)
KEEL_INLINE uint64_t state_differs(uint64_t state, uintptr_t mask) {
    return (state + mask + 1) << (64 - STATE_THREAD_SHIFT);
}
KEEL_INLINE bool state_is_free(uint64_t state, uintptr_t mask) {
    return state_differs(state, mask) == 0;
}

// Ends the process, with the fault that the state of the block shows. `page` is that of the
// address, not an interior one.
KEEL_COLD KEEL_NORETURN void block_fault_at_free(const struct page* page, const void* address);
KEEL_COLD KEEL_NORETURN void block_fault_at_malloc(const void* block, uint32_t block_bytes);
KEEL_COLD KEEL_NORETURN void block_fault_in_bin(const void* block);

#define ZEROED_BYTES_MAX 144u
// True: free zeroes blocks of this size, and malloc verifies them.
KEEL_INLINE bool block_is_zeroed(uint32_t block_bytes) {
    return KEEL_SECURE && (block_bytes <= ZEROED_BYTES_MAX || block_guard.zero != 0);
}

// Blocks of up to ZEROED_BYTES_MAX are zeroed and verified in pieces of 16 bytes, the first one at
// the block's start. Both functions jump to the step of the block's size, which takes fewer
// instructions than a loop.
#define ZEROED_PIECES_MAX (ZEROED_BYTES_MAX / 16)
#define NOT_ZEROED (ZEROED_PIECES_MAX + 1) // instead of the number, in a request_row
_Static_assert(ZEROED_PIECES_MAX == 9, "each number of pieces has its step");
typedef uint64_t __attribute__((vector_size(16), may_alias)) block_piece;
typedef uint64_t __attribute__((may_alias)) block_word; // links are stored as pointers

// Overwrites the state with 0, too. Of a larger block, only the first word.
KEEL_INLINE void block_zero(void* block, unsigned pieces) {
    KEEL_ASSERT((uintptr_t)block % sizeof(block_piece) == 0 && pieces > 0);
    block_piece* piece = (block_piece*)block;
    block_piece zero = {0, 0};
    KEEL_OPAQUE_VECTOR(zero); // else the compiler makes it again for each piece
    switch (pieces) {
    case 9:
        piece[8] = zero;
        KEEL_FALL_THROUGH;
    case 8:
        piece[7] = zero;
        KEEL_FALL_THROUGH;
    case 7:
        piece[6] = zero;
        KEEL_FALL_THROUGH;
    case 6:
        piece[5] = zero;
        KEEL_FALL_THROUGH;
    case 5:
        piece[4] = zero;
        KEEL_FALL_THROUGH;
    case 4:
        piece[3] = zero;
        KEEL_FALL_THROUGH;
    case 3:
        piece[2] = zero;
        KEEL_FALL_THROUGH;
    case 2:
        piece[1] = zero;
        KEEL_FALL_THROUGH;
    case 1:
    case 0: // there is none, but the table of the steps begins with it
        piece[0] = zero;
        break;
    default:
        ((struct block*)block)->next = NULL;
    }
}

// The words `index` and `index` + 1. Opaque, else the compiler combines them first.
#define ADD_WORDS(index)                                                                           \
    found |= word[index];                                                                          \
    KEEL_OPAQUE(found);                                                                            \
    found |= word[index + 1];                                                                      \
    KEEL_OPAQUE(found);                                                                            \
    KEEL_FALL_THROUGH

// `found`, and 0 added for each word before the state that is zero. NOT_ZEROED: only for the first
// one; not 0 if all of them have to be verified.
KEEL_INLINE uint64_t pieces_not_zero(const void* block, unsigned pieces, uint64_t found) {
    KEEL_ASSERT(pieces <= NOT_ZEROED);
    const block_word* word = block;
    switch (pieces) {
    case 9:
        ADD_WORDS(15);
    case 8:
        ADD_WORDS(13);
    case 7:
        ADD_WORDS(11);
    case 6:
        ADD_WORDS(9);
    case 5:
        ADD_WORDS(7);
    case 4:
        ADD_WORDS(5);
    case 3:
        ADD_WORDS(3);
    case 2:
        ADD_WORDS(1);
    case 1:
        return found | word[0];
    case 0:
    case NOT_ZEROED:
        return found | word[0] | block_guard.zero;
    default:
        __builtin_unreachable();
    }
}
#undef ADD_WORDS

// 0: all of the bytes before the state are zero.
KEEL_INLINE uint64_t block_not_zero(const void* block, uint32_t block_bytes) {
    KEEL_ASSERT(block_bytes >= 16 && block_bytes % 16 == 0);
    if (block_bytes <= ZEROED_BYTES_MAX) return pieces_not_zero(block, block_bytes / 16, 0);
    const block_word* end = block_state(block, block_bytes);
    uint64_t found = 0;
    for (const block_word* word = block; word < end; word++) found |= *word;
    return found;
}

// A new block of a bin: free, by no thread. `key` is that of the process.
KEEL_INLINE void block_carve(struct block* block, uint32_t block_bytes, uintptr_t key) {
    KEEL_ASSERT(key != 0 && key == block_guard.key);
    uintptr_t mask = key ^ (uintptr_t)block;
    block->next = NULL;
    *block_state(block, block_bytes) = ~mask;
}

// The number of the block at an offset in the page, by a product: exact, since the blocks have up
// to 2^12 times 16 bytes, and the pages 2^18 times (SUPERBLOCK_SLICES).
#define RECIPROCAL_ONE (UINT64_C(1) << 31)
_Static_assert((CLASS_BYTES_MAX / 16) * (SUPERBLOCK_BYTES / 16) < RECIPROCAL_ONE, "exact");
KEEL_INLINE size_t block_index(const struct page* page, size_t offset) {
    KEEL_ASSERT(KEEL_SECURE && offset < page->bytes);
    return offset / 16 * page->reciprocal / RECIPROCAL_ONE;
}

// The greatest offset of a block that the page has room for.
KEEL_INLINE size_t page_last(const struct page* page) {
    KEEL_ASSERT(page->capacity > 0 && page->block_bytes > 0);
    return (size_t)(page->capacity - 1) * page->block_bytes;
}
// True if the address is in the page, and not behind the start of the last block.
KEEL_INLINE bool page_reaches(const struct page* page, const void* address) {
    return (uintptr_t)address - (uintptr_t)page->start <= page_last(page);
}

KEEL_INLINE bool block_may_have_tail(uint32_t block_bytes) {
    return KEEL_SECURE && block_bytes > SMALL_BYTES_MAX;
}

KEEL_INLINE bool state_is_live(uint64_t state, uintptr_t mask, uint32_t block_bytes) {
    uint64_t differs = state ^ mask;
    if (!block_may_have_tail(block_bytes)) return differs == 0;
    return differs << (64 - STATE_THREAD_SHIFT) == 0 && differs >> STATE_THREAD_SHIFT < block_bytes;
}

// True: a block that the page has room for begins at the address, and it is live.
KEEL_INLINE bool block_is_live(const struct page* page, const void* address) {
    if (!page_reaches(page, address)) return false;
    uint64_t state = *block_state(address, page->block_bytes);
    return state_is_live(state, block_mask(address), page->block_bytes);
}

// Bytes of the tail; 0: none, or the block is not live.
KEEL_INLINE size_t block_tail(const struct page* page, const void* block) {
    if (!block_may_have_tail(page->block_bytes) || !block_is_live(page, block)) return 0;
    return (*block_state(block, page->block_bytes) ^ block_mask(block)) >> STATE_THREAD_SHIFT;
}
// Gives a live block of a bin its tail. `size` is that of the request.
void block_seal_slow(void* block, uint32_t block_bytes, size_t size);
KEEL_INLINE void block_seal(void* block, uint32_t block_bytes, size_t size) {
    KEEL_ASSERT(block_bytes > 0);
    if (block_may_have_tail(block_bytes)) block_seal_slow(block, block_bytes, size);
}
// The value of a tail depends on the key: before other blocks may use the memory, it is removed.
KEEL_INLINE void block_clear_tail(const struct page* page, void* block) {
    size_t tail = block_tail(page, block);
    if (tail != 0) memset((char*)block + page->block_bytes - BLOCK_STATE_BYTES - tail, 0, tail);
}
// Zeroes the bytes before the state, at a limited rate; otherwise writes AS_LEFT in front of it.
void block_zero_rarely(const struct page* page, void* block);
// Ends the process if the tail of a live block is overwritten.
void block_verify_tail(const struct page* page, const void* block);

// The same, and faster, for a page that may be that of a large block. False: not known.
KEEL_INLINE bool block_is_surely_live(const struct page* page, const void* address) {
    size_t offset = (uintptr_t)address - (uintptr_t)page->start;
    if (page->block_bytes == 0 || offset >= page->fast_end) return false;
    return *(const uint64_t*)(const void*)(page->states + offset) == block_mask(address);
}

// A state is the exclusive or of the mask and this, if `thread` has freed the block.
KEEL_INLINE uint64_t state_mark(uint32_t thread) {
    return ~((uint64_t)thread << STATE_THREAD_SHIFT);
}

// The program frees the block. `mark` is that of the caller. False,
// and nothing is done, if the block is not live, and always if it is a larger one that
// KEEL_ZERO_ON_FREE concerns: the caller takes the slow path.
//
// Pages begin at slices, and page_of_low ignores the highest 16 bits of the address. So this reads
// a word of the page whatever these bits are. If they are not 0, the word differs from the mask.
KEEL_INLINE bool block_try_free(const struct page* page, void* address, uint64_t mark) {
    if (!KEEL_SECURE) return true;
    const uintptr_t mask = block_mask(address);
    size_t offset = (uintptr_t)address % SLICE_BYTES;
    if (offset >= page->fast_end) return false;
    uint64_t* state = (uint64_t*)(void*)(page->states + offset);
    if (*state != mask) return false;
    block_zero(address, page->block_bytes / 16);
    *state = mask ^ mark;
    return true;
}
// The same on the slow path: ends the process if the block is not live.
KEEL_INLINE void block_free(const struct page* page, void* address, uint64_t mark) {
    if (!KEEL_SECURE) return;
    if (KEEL_UNLIKELY(!block_is_live(page, address))) block_fault_at_free(page, address);
    if (block_may_have_tail(page->block_bytes)) {
        block_verify_tail(page, address);
        block_clear_tail(page, address);
    }
    if (block_is_zeroed(page->block_bytes))
        memset(address, 0, page->block_bytes - BLOCK_STATE_BYTES);
    else if (block_may_have_tail(page->block_bytes))
        block_zero_rarely(page, address);
    *block_state(address, page->block_bytes) = block_mask(address) ^ mark;
}

// The value of the word before the state in a free block with a tail whose bytes are not zero.
#define AS_LEFT UINT64_C(0x7f6b65656c6c6566)
KEEL_INLINE uint64_t* block_left(const void* block, uint32_t block_bytes) {
    return block_state(block, block_bytes) - 1;
}

// True: the bytes of this free block are zero.
KEEL_INLINE bool block_has_zeros(const struct block* block, uint32_t block_bytes) {
    if (!block_may_have_tail(block_bytes)) return block_is_zeroed(block_bytes);
    return *block_left(block, block_bytes) != AS_LEFT;
}

// Not 0: a block that is in no list of links is not as its free left it.
KEEL_INLINE uint64_t block_differs_from_free(const struct block* block, uint32_t block_bytes) {
    uint64_t differs = state_differs(*block_state(block, block_bytes), block_mask(block));
    differs |= (uintptr_t)block->next;
    if (block_has_zeros(block, block_bytes)) differs |= block_not_zero(block, block_bytes);
    return differs;
}

// Gives a block of a bin to the program.
KEEL_INLINE void block_take(struct block* block, uint32_t block_bytes) {
    if (KEEL_UNLIKELY(block_differs_from_free(block, block_bytes) != 0)) block_fault_in_bin(block);
    if (block_may_have_tail(block_bytes)) *block_left(block, block_bytes) = 0;
    *block_state(block, block_bytes) = block_mask(block);
}

// Gives a block of a bin to the program, if it is free; else does nothing. The row is that of the
// bin's blocks, `key` that of the process.
KEEL_INLINE bool block_try_take(struct block* block, struct request_row row, uintptr_t key) {
    uintptr_t mask = key ^ (uintptr_t)block;
    uint64_t* state = (uint64_t*)(void*)block + row.state_word;
    uint64_t wrong = pieces_not_zero(block, row.pieces, state_differs(*state, mask));
    if (wrong != 0) return false;
    *state = mask;
    return true;
}

// A block that other threads have freed: verifies that its page may have such a block and that it
// is free.
KEEL_INLINE void block_require_free(const void* block) {
    if (!KEEL_SECURE) return;
    const struct page* page = page_around(block);
    uint32_t bytes = page->block_bytes;
    bool possible = bytes != 0 && page_reaches(page, block);
    if (!possible || !state_is_free(*block_state(block, bytes), block_mask(block)))
        block_fault_at_malloc(block, possible ? bytes : 0);
}

#endif

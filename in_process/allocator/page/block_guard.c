#include "allocator/page/block_guard.h"
#include "allocator/page/page.h"
#include "base/cycles.h"
#include "base/options.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"
#include <string.h>

struct block_guard block_guard = {.no_block = {KEEL_SECURE}};

// One byte behind a block is often overwritten with 0 (a string that is one byte too long), 1, 0xff
// or 'a'. The lowest 3 bits of these are 0, 1 or 7, so those of the first and of the highest byte
// of a state word never are. Blocks and their sizes are multiples of 8, and have fewer than 56
// bits: so these bits are those of the key.
static uintptr_t key_of(uint64_t random) {
    const uint64_t chosen = UINT64_C(7) << 56 | 7;
    uint64_t bits = (2 + (random & 3)) | (2 + (random >> 3 & 3)) << 56;
    return (uintptr_t)((random & ~chosen) | bits);
}

// Random bits, each word from the one before. Their quality need not be that of a key.
static uint32_t next_bits(uint64_t* state) {
    *state = *state * UINT64_C(0xd1342543de82ef95) + 1;
    return (uint32_t)(*state >> 32);
}

static void choose_order(uint8_t* order, uint64_t* random) {
    for (unsigned i = 0; i < BIN_BLOCKS; i++) {
        unsigned other = (unsigned)((uint64_t)next_bits(random) * (i + 1) >> 32);
        order[i] = order[other];
        order[other] = (uint8_t)i;
    }
    memcpy(order + BIN_BLOCKS, order, BIN_BLOCKS);
}

static void choose_rows(void) {
    for (unsigned i = 0; i <= SMALL_BYTES_MAX / 8; i++) {
        unsigned size_class = size_class_small[i];
        KEEL_ASSERT(size_class > 0 && size_class < SIZE_COUNT);
        const uint32_t bytes = size_class_bytes[size_class];
        block_guard.rows[i] = (struct request_row){
            .above_first = (uint16_t)(size_class - 1),
            .state_word = (uint8_t)(bytes / sizeof(uint64_t) - 1),
            .pieces = bytes <= ZEROED_BYTES_MAX ? (uint8_t)(bytes / 16) : NOT_ZEROED,
        };
    }
}

void block_guard_prepare_slow(void) {
    static struct os_lock lock = {0};
    os_lock_acquire(&lock);
    if (block_guard.key == 0) {
        uintptr_t key = key_of(os_random());
        uint64_t random = os_random();
        choose_rows();
        KEEL_ASSERT(key != 0);
        block_guard.zero = option_get(OPTION_ZERO_ON_FREE) != 0;
        for (unsigned i = 0; i < BIN_ORDERS; i++) choose_order(block_guard.orders[i], &random);
        atomic_set_release((atomic_word*)&block_guard.key, key);
        if (os_page_bytes() <= sizeof block_guard)
            os_forbid_writing(&block_guard, sizeof block_guard);
    }
    os_lock_release(&lock);
}

// A value that a program does not write by chance (key_of), another one for each block.
static uint8_t tail_value(const void* block) {
    uint64_t bits = block_mask(block) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    return (uint8_t)((bits & 0xF8) | (2 + (bits >> 8 & 3)));
}

void block_seal_slow(void* block, uint32_t block_bytes, size_t size) {
    KEEL_ASSERT(block_may_have_tail(block_bytes) && size <= block_bytes - BLOCK_STATE_BYTES);
    uint64_t tail = block_bytes - BLOCK_STATE_BYTES - size;
    memset((char*)block + size, tail_value(block), tail);
    *block_state(block, block_bytes) = block_mask(block) ^ tail << STATE_THREAD_SHIFT;
}

void block_verify_tail(const struct page* page, const void* block) {
    KEEL_ASSERT(block_may_have_tail(page->block_bytes));
    const size_t usable = page->block_bytes - BLOCK_STATE_BYTES - block_tail(page, block);
    const uint8_t* at = (const uint8_t*)block + usable;
    KEEL_ASSERT(usable < page->block_bytes);
    const uint8_t* end = at + block_tail(page, block);
    uint8_t differs = 0;
    while (at < end) differs |= *at++ ^ tail_value(block);
    if (differs != 0)
        panic_block(FAULT_OVERFLOW, block,
                    (struct fault_block){.bytes = usable, .thread = os_thread_id()});
}

// To zero a byte and to verify it later takes a quarter of a cycle in the nearest cache, and one
// where it has left the caches: so these are 0.4 to 1.6 % of the time, and 60 to 250 thousand
// cycles at once.
#define ZEROED_BYTE_CYCLES 64u
#define ZEROED_BYTES_BURST ((uint64_t)256 << 10)

// Threads write `turn` only for a block that is zeroed, so they seldom wait for its cache line.
static bool may_zero(uint32_t block_bytes) {
    static atomic_bits turn;
    const uint64_t burst = ZEROED_BYTES_BURST * ZEROED_BYTE_CYCLES;
    const uint64_t now = cycles_now();
    uint64_t next = atomic_get(&turn);
    uint64_t least = now > burst ? now - burst : 0;
    if (next < least) next = least;
    if (next > now) return false;
    atomic_set(&turn, next + (uint64_t)block_bytes * ZEROED_BYTE_CYCLES);
    return true;
}

// What the program may not have touched of a block of a cold page stays as it is.
void block_zero_rarely(const struct page* page, void* block) {
    const uint32_t block_bytes = page->block_bytes;
    KEEL_ASSERT(block_may_have_tail(block_bytes));
    bool cold = block_bytes > 2 * SYSTEM_PAGE && (page_use(page)->fresh & PAGE_COLD) != 0;
    bool zero = !cold && may_zero(block_bytes);
    if (zero) memset(block, 0, block_bytes - BLOCK_STATE_BYTES);
    *block_left(block, block_bytes) = zero ? 0 : AS_LEFT;
}

// What is known of the usable bytes of a block that is not live; 0: nothing.
static size_t bytes_known(uint32_t block_bytes) {
    return block_may_have_tail(block_bytes) ? 0 : block_bytes - BLOCK_STATE_BYTES;
}

// The thread that freed the block; 0: not known.
static uint32_t freed_by(const void* block, uint32_t block_bytes) {
    uint64_t difference = *block_state(block, block_bytes) ^ ~block_mask(block);
    return (uint32_t)(difference >> STATE_THREAD_SHIFT);
}

void block_fault_at_free(const struct page* page, const void* address) {
    uint32_t bytes = page->block_bytes;
    struct fault_block block = {.bytes = bytes_known(bytes), .thread = os_thread_id()};
    uintptr_t offset = (uintptr_t)address - (uintptr_t)page->start;
    if (!page_reaches(page, address) || offset % bytes != 0)
        panic_block(FAULT_FREE_MISALIGNED, address, block);
    if (offset / bytes >= page_use(page)->carved)
        panic_block(FAULT_FREE_NOT_ALLOCATED, address, block);
    if (!state_is_free(*block_state(address, bytes), block_mask(address)))
        panic_block(FAULT_OVERFLOW, address, block);
    block.freed_by = freed_by(address, bytes);
    panic_block(block.freed_by != 0 ? FAULT_DOUBLE_FREE : FAULT_FREE_NOT_ALLOCATED, address, block);
}

void block_fault_in_bin(const void* block) {
    block_fault_at_malloc(block, page_of_block(block)->block_bytes);
}

void block_fault_at_malloc(const void* address, uint32_t block_bytes) {
    struct fault_block block = {.thread = os_thread_id()};
    if (block_bytes == 0) panic_block(FAULT_AFTER_FREE, address, block);
    block.bytes = bytes_known(block_bytes);
    if (*block_state(address, block_bytes) == block_mask(address))
        panic_block(FAULT_LIVE_IN_LIST, address, block);
    if (state_is_free(*block_state(address, block_bytes), block_mask(address)))
        block.freed_by = freed_by(address, block_bytes);
    panic_block(FAULT_AFTER_FREE, address, block);
}

#include "allocator/page/page.h"
#include "allocator/space/run.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/memory.h"
#include <string.h>

#define AHEAD_PAGES ((unsigned)(SLICE_BYTES / SYSTEM_PAGE))

// Random bits for the order of blocks. The generator is not one for secrets, but its seed is one.
static uint32_t order_bits(void) {
    static KEEL_TLS uint64_t state;
    if (state == 0) state = block_guard.key ^ (uintptr_t)&state;
    state = state * UINT64_C(0xd1342543de82ef95) + 1;
    return (uint32_t)(state >> 32);
}

static const uint8_t* order_row(uint32_t bits) {
    return block_guard.orders[bits % BIN_ORDERS] + bits / BIN_ORDERS % BIN_BLOCKS;
}

// A random order of `count` blocks.
static const uint8_t order_of_one[1] = {0};
static const uint8_t* random_order(unsigned count, uint8_t* buffer) {
    KEEL_ASSERT(count > 0 && count <= BIN_BLOCKS);
    if (count == 1) return order_of_one;
    uint32_t bits = order_bits();
    const uint8_t* row = order_row(bits);
    if (KEEL_LIKELY(count == BIN_BLOCKS)) return row;
    if (count <= 4) { // a quarter of the bits decides on each place
        for (unsigned i = 0; i < count; i++, bits >>= 8) {
            unsigned other = (bits & 255) * (i + 1) >> 8;
            buffer[i] = buffer[other];
            buffer[other] = (uint8_t)i;
        }
        return buffer;
    }
    unsigned found = 0;
    for (unsigned i = 0; i < BIN_BLOCKS; i++) {
        buffer[found] = row[i];
        found += row[i] < count;
    }
    return buffer;
}

// --- Residence -----------------------------------------------------------------------------------

#define SLICE_PAGES ((unsigned)(SLICE_BYTES / SYSTEM_PAGE))
#define SLICE_ABSENT (SLICE_PAGES + 1)

unsigned page_resident(const char* start, unsigned slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0);
    const struct page* page = page_of(start);
    unsigned resident = 0;
    for (unsigned i = 0; i < slices; i++) {
        unsigned absent = page_use(page + i)->absent;
        KEEL_ASSERT(absent <= SLICE_PAGES); // a free slice is not noted as untouched
        resident += SLICE_PAGES - absent;
        if (absent != 0) break;
    }
    return resident;
}

// Blocks are carved in the order of their addresses.
static unsigned resident_now(const struct page* page) {
    const struct page_use* use = page_use(page);
    size_t carved = (size_t)use->carved * page->block_bytes;
    unsigned touched = (unsigned)((carved + SYSTEM_PAGE - 1) / SYSTEM_PAGE);
    if ((use->fresh & PAGE_COLD) == 0) return (unsigned)(page->bytes / SYSTEM_PAGE);
    return touched > use->resident ? touched : use->resident;
}

void page_note_untouched(struct page* page, unsigned untouched) {
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    KEEL_ASSERT(untouched <= slices);
    for (unsigned i = slices - untouched; i < slices; i++)
        page_use(page + i)->absent = SLICE_ABSENT;
}

// How much the program has not touched yet. The part that is not resident counts as that.
static int64_t untouched_bytes(const struct page* page) {
    KEEL_ASSERT(resident_now(page) * SYSTEM_PAGE <= page->bytes);
    return (int64_t)page->bytes - (int64_t)(resident_now(page) * SYSTEM_PAGE);
}

static void note_absent(struct page* page) {
    KEEL_ASSERT(page->bytes % SLICE_BYTES == 0);
    unsigned resident = resident_now(page);
    for (unsigned i = 0; i < page->bytes / SLICE_BYTES; i++) {
        unsigned here = resident < SLICE_PAGES ? resident : SLICE_PAGES;
        page_use(page + i)->absent = (uint8_t)(SLICE_PAGES - here);
        resident -= here;
    }
}

static void page_set_fast(struct page* page) {
    KEEL_ASSERT(KEEL_SECURE && page->block_bytes % 16 == 0);
    bool fast = page->block_bytes <= ZEROED_BYTES_MAX ||
                (block_guard.zero == 0 && !block_may_have_tail(page->block_bytes));
    page->fast_end = fast ? page_last(page) + 1 : 0;
    page->reciprocal = (uint32_t)((RECIPROCAL_ONE - 1) / (page->block_bytes / 16) + 1);
    page->states = page->start + page->block_bytes - BLOCK_STATE_BYTES;
}

struct page* page_begin(char* start, unsigned slices, unsigned size_class, uintptr_t owner,
                        unsigned fresh, unsigned resident) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0 && slices <= SUPERBLOCK_SLICES);
    KEEL_ASSERT(size_class < CLASS_COUNT);
    KEEL_ASSERT(resident <= slices * SLICE_PAGES && (owner & PAGE_FLAGS) == 0);
    struct page* page = page_of(start);
    block_guard_prepare();
    page->block_bytes = size_class_bytes[size_class]; // before any read: see windows_prepare
    KEEL_REQUIRE(atomic_get(&page->owner) == 0, start);
    page->capacity = (uint16_t)(slices * SLICE_BYTES / page->block_bytes);
    KEEL_ASSERT(page->capacity >= PAGE_BLOCKS_MIN);
    page->size_class = (uint16_t)size_class;
    page->distance = 0;
    page->start = start;
    page->bytes = slices * SLICE_BYTES;
    if (KEEL_SECURE) page_set_fast(page);
    struct page_use* use = page_use(page);
    use->next = NULL;
    use->local_free = NULL;
    if (KEEL_SECURE) {
        queue_clear(use, window_own_row(start));
        use->order = (uint16_t)order_bits();
    }
    use->used = 0;
    use->carved = 0;
    atomic_set(&use->list, PAGE_UNLISTED);
    use->fresh = (uint8_t)fresh;
    use->resident = (uint16_t)resident;
    use->prev = NULL;
    if ((fresh & PAGE_COLD) != 0) policy_touch(-untouched_bytes(page));
    atomic_set_release(&page->owner, owner);
    for (unsigned i = 1; i < slices; i++) {
        KEEL_ASSERT(atomic_get(&page[i].owner) == 0);
        page[i].distance = (uint8_t)i;
        atomic_set_release(&page[i].owner, owner | PAGE_INTERIOR);
    }
    return page;
}

// Erases the link and the state, from which the key follows. Other blocks may use the memory next,
// and the program may print them before it has written to them.
static void block_erase(struct block* block, uint32_t block_bytes) {
    block->next = NULL;
    if (block_may_have_tail(block_bytes)) *block_left(block, block_bytes) = 0;
    *block_state(block, block_bytes) = 0;
}

// The last chance to find a write to a free block.
static void block_verify_free(const struct block* block, uint32_t block_bytes) {
    bool free = state_is_free(*block_state(block, block_bytes), block_mask(block));
    if (!free) block_fault_at_malloc(block, block_bytes);
}

static struct block* page_block(const struct page* page, uint32_t index) {
    KEEL_ASSERT(index < page->capacity);
    return (struct block*)(void*)(page->start + (size_t)index * page->block_bytes);
}

static char* carve_first(const struct page* page) {
    KEEL_ASSERT(page_use(page)->carved <= page->capacity);
    return page->start + (size_t)page_use(page)->carved * page->block_bytes;
}

// Without the first two words, which may be a link and a hint.
static KEEL_COLD void page_verify_zero(const struct page* page) {
    const uint32_t block_bytes = page->block_bytes;
    for (uint32_t i = 0; i < page_use(page)->carved; i++) {
        const struct block* block = page_block(page, i);
        if (!block_has_zeros(block, block_bytes)) continue;
        if (block_not_zero((const char*)block + 16, block_bytes - 16) != 0)
            block_fault_at_malloc(block, block_bytes);
    }
}

// Ends the process, or the link leads to another block of the page.
static KEEL_NOINLINE void block_verify_link(const struct page* page, const struct block* block) {
    if (!state_is_free(*block_state(block, page->block_bytes), block_mask(block)))
        block_fault_at_malloc(block, page->block_bytes);
    uintptr_t next = (uintptr_t)block_next(block);
    if (next != 0 && next - (uintptr_t)page->start > page_last(page)) block_fault_in_bin(block);
}

// All blocks are in the queue. In the order of their addresses, because the processor prefetches
// this order. A link is NULL, or leads to another block of the page. One test for both words.
static void page_erase_queue(struct page* page) {
    const size_t block_bytes = page->block_bytes;
    const char* start = page->start;
    const uintptr_t key = block_guard.key; // else it is read again after each write
    if (block_may_have_tail(page->block_bytes) ||
        (KEEL_UNLIKELY(block_guard.zero != 0) && block_bytes > ZEROED_BYTES_MAX))
        page_verify_zero(page);
    for (char* at = carve_first(page); at != start;) {
        at -= block_bytes;
        struct block* block = (struct block*)(void*)at;
        uintptr_t mask = key ^ (uintptr_t)at;
        uint64_t* state = (uint64_t*)(void*)(at + block_bytes - BLOCK_STATE_BYTES);
        if (KEEL_UNLIKELY((state_differs(*state, mask) | (uintptr_t)block->next) != 0))
            block_verify_link(page, block);
        block_erase(block, (uint32_t)block_bytes);
    }
}

static void page_erase_free(struct page* page) {
    if (page_use(page)->used == 0) {
        page_erase_queue(page);
        return;
    }
    // The keeper has gathered the blocks (heap/relief.c). Their links are not verified.
    for (uint32_t i = 0; i < page_use(page)->carved; i++) {
        block_verify_free(page_block(page, i), page->block_bytes);
        block_erase(page_block(page, i), page->block_bytes);
    }
}

void page_end(struct page* page) {
    KEEL_ASSERT(!page_is_large(page));
    KEEL_ASSERT(page->bytes % SLICE_BYTES == 0 && atomic_get(&page->owner) != 0);
    KEEL_ASSERT(page_check(page));
    if (KEEL_SECURE) {
        page_erase_free(page);
        queue_end_rows(page);
    }
    note_absent(page);
    if ((page_use(page)->fresh & PAGE_COLD) != 0) policy_touch(untouched_bytes(page));
    page_end_trust(page);
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    for (unsigned i = 0; i < slices; i++) atomic_set_release(&page[i].owner, 0);
}

// The slices at the page's start that may occupy memory.
static unsigned touched_slices(const struct page* page) {
    unsigned touched = (resident_now(page) + SLICE_PAGES - 1) / SLICE_PAGES;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    while (slices > touched && page_use(page + slices - 1)->absent == SLICE_ABSENT) slices--;
    return slices;
}

void page_release(struct page* page) {
    char* start = page->start;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    unsigned touched = touched_slices(page);
    page_end(page);
    if (touched > 0) run_release(start, touched);
    if (touched < slices) run_release_empty(start + touched * SLICE_BYTES, slices - touched);
}

void page_forget_blocks(struct page* page) {
    struct page_use* use = page_use(page);
    if (!KEEL_SECURE) return;
    for (uint32_t i = 0; i < use->carved; i++) {
        block_clear_tail(page, page_block(page, i));
        block_erase(page_block(page, i), page->block_bytes);
    }
    page_unlink_all(page);
    use->used = 0;
    page_uncarve(page, use->fresh & ~(unsigned)PAGE_COLD); // no page begins again before it ends
}

KEEL_UNRACED_UPDATE void page_uncarve(struct page* page, unsigned fresh) {
    struct page_use* use = page_use(page);
    int64_t before = untouched_bytes(page);
    use->carved = 0;
    use->resident = 0;
    use->fresh = (uint8_t)fresh;
    policy_touch(before - untouched_bytes(page));
}

// Links `count` adjacent blocks in the order of their addresses.
static struct block* carve_list(char* first, uint32_t step, unsigned count) {
    KEEL_ASSERT(count > 0 && step >= 8);
    char* at = first;
    for (unsigned i = 1; i < count; i++, at += step)
        ((struct block*)at)->next = (struct block*)(at + step);
    ((struct block*)at)->next = NULL;
    return (struct block*)first;
}

// Blocks of which the first one is `first`. All of them begin in the same system page, or the page
// is warm.
static unsigned carve_count(const struct page* page, const char* first, unsigned limit) {
    KEEL_ASSERT(limit > 0);
    unsigned left = (unsigned)(page->capacity - page_use(page)->carved);
    size_t to_boundary = SYSTEM_PAGE - ((uintptr_t)first & (SYSTEM_PAGE - 1));
    if (KEEL_SECURE && left >= limit && to_boundary > (size_t)(limit - 1) * page->block_bytes)
        return limit; // the usual case of small blocks, without a division
    unsigned count = (unsigned)((to_boundary + page->block_bytes - 1) / page->block_bytes);
    if (count < CARVE_WARM_MIN && (page_use(page)->fresh & PAGE_WARM) != 0) count = CARVE_WARM_MIN;
    if (count > left) count = left;
    return count < limit ? count : limit;
}

// A page with small blocks is carved system page by system page. From the third on, this call
// provides as many as are carved already, so that five calls of 16 take page faults:
//
//   system page   0     1     2       4           8                       16
//   provided      | 1   | 1   | 2     | 4         | 8                     |
//
// Not before `first`: the content of a carved block may end in the same system page. Larger blocks
// may not be filled, and their system pages are the program's to touch.
static bool provide_ahead(const struct page* page, char* first, unsigned index) {
    KEEL_ASSERT(index < page->bytes / SYSTEM_PAGE);
    if (page->block_bytes > SYSTEM_PAGE || index < 2) return false;
    if ((page_use(page)->fresh & PAGE_AHEAD) == 0) return false;
    if ((index & (index - 1)) != 0) return index < AHEAD_PAGES; // an earlier call has provided it
    unsigned pages = (unsigned)(page->bytes / SYSTEM_PAGE);
    unsigned end = index + (index < AHEAD_PAGES ? index : AHEAD_PAGES);
    if (end > pages) end = pages;
    os_provide(first, (size_t)(page->start + end * SYSTEM_PAGE - first));
    return true;
}

// `count` blocks from a system page that may not be resident. A single one is not written.
static void carve_cold(const struct page* page, unsigned count) {
    char* first = carve_first(page);
    unsigned index = (unsigned)((size_t)(first - page->start) / SYSTEM_PAGE);
    if (!page_begins_system_page(page) || index < page_use(page)->resident) return;
    if (!provide_ahead(page, first, index) && (KEEL_SECURE || count > 1)) count_fault();
}

// Before the caller writes to the blocks.
static void carve_begin(struct page* page, unsigned count) {
    KEEL_ASSERT(count > 0 && page_use(page)->carved + count <= page->capacity);
    struct page_use* use = page_use(page);
    bool cold = (use->fresh & PAGE_COLD) != 0;
    if (cold) carve_cold(page, count);
    int64_t before = cold ? untouched_bytes(page) : 0;
    use->carved = (uint16_t)(use->carved + count);
    use->used += count;
    int64_t touched = cold ? before - untouched_bytes(page) : 0;
    if (touched != 0) policy_touch(touched);
    count_work(WORK_CARVE_LINKS, count);
}

struct block* page_carve(struct page* page, struct block** rest) {
    char* first = carve_first(page);
    const uint32_t step = page->block_bytes;
    unsigned count = carve_count(page, first, CARVE_LINKS_MAX);
    *rest = NULL;
    if (count == 0) return NULL;
    carve_begin(page, count);
    if (count > 1) *rest = carve_list(first + step, step, count - 1);
    return (struct block*)(void*)first;
}

// --- The bins of the secure flavour --------------------------------------------------------------

KEEL_INLINE void carve_at(char* at, uint32_t block_bytes, uintptr_t key, struct block** place) {
    *place = (struct block*)(void*)at;
    block_carve(*place, block_bytes, key);
}

unsigned page_carve_into(struct page* page, struct block** end, unsigned limit) {
    KEEL_ASSERT(limit <= BIN_BLOCKS);
    uint8_t buffer[BIN_BLOCKS + 1];
    const uint32_t block_bytes = page->block_bytes;
    char* first = carve_first(page);
    unsigned count = carve_count(page, first, limit);
    KEEL_ASSERT(count <= limit);
    if (count == 0) return 0;
    carve_begin(page, count);
    struct block** blocks = end - count;
    const uint8_t* order = random_order(count, buffer);
    const uintptr_t key = block_guard.key; // else it is read again after each write
    if (block_is_zeroed(block_bytes) && (page_use(page)->fresh & PAGE_ZERO) == 0)
        memset(first, 0, (size_t)count * block_bytes);
    if (KEEL_SECURE && KEEL_LIKELY(count == BIN_BLOCKS)) {
#pragma GCC unroll 16
        for (unsigned i = 0; i < BIN_BLOCKS; i++, first += block_bytes)
            carve_at(first, block_bytes, key, &blocks[order[i]]);
    } else {
        for (unsigned i = 0; i < count; i++, first += block_bytes)
            carve_at(first, block_bytes, key, &blocks[order[i]]);
    }
    for (unsigned i = 0; block_may_have_tail(block_bytes) && i < count; i++)
        *block_left(blocks[i], block_bytes) = block_guard.zero != 0 ? 0 : AS_LEFT;
    return count;
}

// The link and the state of each block are verified when malloc returns it. The order of the next
// refill is chosen now, so that its first block can be prefetched: malloc returns it at once.
void page_take_most(struct page* page, struct block** blocks) {
    KEEL_ASSERT(page_can_give_most(page));
    struct page_use* use = page_use(page);
    use->used += BIN_BLOCKS;
    const uint8_t* order = order_row(use->order);
    use->order = (uint16_t)order_bits();
    queue_take_most(page, blocks, order, *order_row(use->order));
}

unsigned page_take_oldest(struct page* page, struct block** end) {
    KEEL_ASSERT(page_can_give(page));
    struct page_use* use = page_use(page);
    uint8_t buffer[BIN_BLOCKS + 1];
    uint32_t count = use->carved - use->used - page_quarantine(page);
    if (count >= BIN_BLOCKS) {
        page_take_most(page, end - BIN_BLOCKS);
        return BIN_BLOCKS;
    }
    use->used += count;
    queue_take(page, end - count, count, random_order(count, buffer));
    return count;
}

bool page_check(const struct page* page) {
    const struct page_use* use = page_use(page);
    if (use->carved > page->capacity || page_use(page)->used > use->carved) return false;
    if (page->block_bytes != size_class_bytes[page->size_class]) return false;
    if ((size_t)page->capacity * page->block_bytes > page->bytes) return false;
    unsigned length = 0;
    struct queue_position position = page_free_begin(page);
    const struct block* block;
    while ((block = page_free_next(page, &position)) != NULL) {
        if ((const char*)block < page->start || (const char*)block >= page->start + page->bytes)
            return false;
        if (!page_begins_block(page, block) || ++length > use->carved) return false;
    }
    return page_use(page)->used + length == use->carved;
}

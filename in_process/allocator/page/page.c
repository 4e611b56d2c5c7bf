#include "allocator/page/page.h"
#include "allocator/slices/reserve.h"
#include "base/counters.h"
#include "base/panic.h"

// Random bits for the order of blocks. The generator is not one for secrets, but its seed is one.
static uint32_t order_bits(void) {
    static KEEL_TLS uint64_t state;
    if (state == 0) state = block_guard.key ^ (uintptr_t)&state;
    state = state * UINT64_C(0xd1342543de82ef95) + 1;
    return (uint32_t)(state >> 32);
}

// Links the blocks in a random order.
static struct block* list_shuffled(struct block** blocks, unsigned count) {
    struct block* next = NULL;
    for (unsigned left = count; left > 0; left--) {
        unsigned chosen = (unsigned)((uint64_t)order_bits() * left >> 32);
        struct block* block = blocks[chosen];
        blocks[chosen] = blocks[left - 1];
        block_set_next(block, next);
        next = block;
    }
    return next;
}

struct page* page_begin(char* start, unsigned size_class, uintptr_t owner, unsigned fresh) {
    struct page* page = page_of(start);
    unsigned slices = page_slices(size_class);
    block_guard_prepare();
    KEEL_REQUIRE(atomic_get(&page->owner) == 0, start);
    page->block_bytes = size_class_bytes[size_class];
    page->capacity = (uint16_t)(slices * SLICE_BYTES / page->block_bytes);
    page->last_block = (page->capacity - 1u) * page->block_bytes;
    page->size_class = (uint8_t)size_class;
    page->distance = 0;
    page->start = start;
    page->bytes = slices * SLICE_BYTES;
    struct page_use* use = page_use(page);
    use->next = NULL;
    use->local_free = NULL;
    use->used = 0;
    use->carved = 0;
    atomic_set(&use->list, PAGE_UNLISTED);
    use->fresh = (uint8_t)fresh;
    use->prev = NULL;
    atomic_set_release(&page->owner, owner);
    for (unsigned i = 1; i < slices; i++) {
        page[i].distance = (uint8_t)i;
        atomic_set_release(&page[i].owner, owner | PAGE_INTERIOR);
    }
    return page;
}

// All blocks are free and zero.
static void page_verify_zero(const struct page* page) {
    for (uint32_t i = 0; i < page_use(page)->carved; i++) {
        const char* block = page->start + (size_t)i * page->block_bytes;
        bool free = state_is_free(*block_state(block, page->block_bytes), block_mask(block));
        if (!free || !block_is_zero(block, page->block_bytes))
            block_fault_at_malloc(block, page->block_bytes);
    }
}

// Erases the links and states of all blocks, from which the key follows. Other blocks may use the
// memory next, and the program may print them before it has written to them.
static void page_erase_words(struct page* page) {
    for (uint32_t i = 0; i < page_use(page)->carved; i++) {
        char* block = page->start + (size_t)i * page->block_bytes;
        ((struct block*)(void*)block)->next = NULL;
        *block_state(block, page->block_bytes) = 0;
    }
}

void page_end(struct page* page) {
    KEEL_ASSERT(page_check(page));
    if (KEEL_SECURE && block_guard.zero != 0) page_verify_zero(page);
    if (KEEL_SECURE) page_erase_words(page);
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    for (unsigned i = 0; i < slices; i++) atomic_set_release(&page[i].owner, 0);
}

void page_forget_blocks(struct page* page) {
    struct page_use* use = page_use(page);
    if (!KEEL_SECURE) return;
    page_erase_words(page);
    use->local_free = NULL;
    use->used = use->carved = 0;
}

// Carving is about to write to a system page that may not be resident. Blocks larger than a system
// page are not prefaulted, because the program is the first to touch most of their system pages.
static void carve_cold(const struct page* page, const char* first) {
    if (page->block_bytes <= SYSTEM_PAGE) {
        unsigned fresh = page_use(page)->fresh;
        unsigned index = (unsigned)((size_t)(first - page->start) / SYSTEM_PAGE);
        unsigned pages = (unsigned)(page->bytes / SYSTEM_PAGE);
        if (reserve_has_keeper())
            prefault_request(page->start, index, pages);
        else if ((fresh & PAGE_AHEAD) != 0 &&
                 prefault_now(page->start, index, pages, (fresh & PAGE_FILLS) != 0))
            return;
    }
    count_event(EVENT_INLINE_FAULTS, 1);
}

// Links `count` adjacent blocks: in the order of their addresses, or shuffled in the secure
// flavour.
static struct block* carve_list(char* first, uint32_t step, unsigned count) {
    if (KEEL_SECURE) {
        struct block* blocks[CARVE_LINKS_MAX];
        for (unsigned i = 0; i < count; i++) {
            blocks[i] = (struct block*)(first + (size_t)i * step);
            block_carve(blocks[i], step);
        }
        return list_shuffled(blocks, count);
    }
    char* at = first;
    for (unsigned i = 1; i < count; i++, at += step)
        ((struct block*)at)->next = (struct block*)(at + step);
    ((struct block*)at)->next = NULL;
    return (struct block*)first;
}

// Ends the process if a block of the list is not zero.
static void list_verify_zero(const struct block* list, uint32_t block_bytes) {
    for (const struct block* block = list; block != NULL; block = block_next(block))
        if (!block_is_zero(block, block_bytes)) block_fault_at_malloc(block, block_bytes);
}

// A random bit sends each block to one of two lists, which are then joined: 2^15 orders of 16
// blocks. The state of each is verified when malloc returns it.
struct block* page_take_oldest(struct page* page) {
    struct page_use* use = page_use(page);
    uint32_t block_bytes = page->block_bytes;
    uint32_t left = use->carved - use->used - page_quarantine(page);
    unsigned count = left < PAGE_TAKE_MAX ? left : PAGE_TAKE_MAX;
    uint32_t bits = order_bits();
    struct block* first = use->local_free;
    struct block* lists[2] = {first, NULL};
    struct block* block = block_next_possible(first, block_bytes);
    KEEL_PREFETCH(block_state(first, block_bytes));
    for (unsigned i = 1; i < count; i++, bits >>= 1) {
        struct block* next = block_next_possible(block, block_bytes);
        KEEL_PREFETCH(block_state(block, block_bytes));
        block_set_next(block, lists[bits & 1]);
        lists[bits & 1] = block;
        block = next;
    }
    block_set_next(first, lists[1]);
    if (block_guard.zero != 0) list_verify_zero(lists[0], block_bytes);
    use->local_free = block;
    use->used += count;
    return lists[0];
}

struct block* page_carve(struct page* page) {
    struct page_use* use = page_use(page);
    unsigned left = (unsigned)(page->capacity - use->carved);
    if (left == 0) return NULL;
    uint32_t step = page->block_bytes;
    char* first = page->start + (size_t)use->carved * step;
    size_t to_boundary = SYSTEM_PAGE - ((uintptr_t)first & (SYSTEM_PAGE - 1));
    unsigned count = (unsigned)((to_boundary + step - 1) / step);
    if (count < CARVE_WARM_MIN && (use->fresh & PAGE_WARM) != 0) count = CARVE_WARM_MIN;
    if (count > left) count = left;
    if (count > CARVE_LINKS_MAX) count = CARVE_LINKS_MAX;

    if ((use->fresh & PAGE_COLD) != 0 && page_begins_system_page(page)) carve_cold(page, first);
    struct block* list = carve_list(first, step, count);
    use->carved = (uint16_t)(use->carved + count);
    use->used += count;
    count_work(WORK_CARVE_LINKS, count);
    return list;
}

bool page_check(const struct page* page) {
    const struct page_use* use = page_use(page);
    if (use->carved > page->capacity || page_use(page)->used > use->carved) return false;
    if (page->block_bytes != size_class_bytes[page->size_class]) return false;
    if ((size_t)page->capacity * page->block_bytes > page->bytes) return false;
    unsigned length = 0;
    for (const struct block* block = use->local_free; block != NULL; block = block_next(block)) {
        if ((const char*)block < page->start || (const char*)block >= page->start + page->bytes)
            return false;
        if (!page_begins_block(page, block) || ++length > use->carved) return false;
    }
    return page_use(page)->used + length == use->carved;
}

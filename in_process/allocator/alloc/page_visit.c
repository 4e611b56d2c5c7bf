#include "allocator/alloc/page_visit.h"
#include "allocator/heap/bin.h"
#include "base/panic.h"

struct idle {
    uint64_t bits[PAGE_BLOCKS_MAX / 64];
};

static void mark(struct idle* idle, const struct page* page, const struct block* block) {
    size_t index = (size_t)((const char*)block - page->start) / page->block_bytes;
    KEEL_ASSERT(index < page->capacity);
    idle->bits[index / 64] |= UINT64_C(1) << (index % 64);
}

// Marks the blocks in the bin of the page's class. Returns their number.
static unsigned mark_bin(struct idle* idle, const struct heap* heap, const struct page* page) {
    KEEL_ASSERT(page_list(page) == PAGE_CURRENT);
    const struct block* block = NULL;
    unsigned length = 0;
    for (; (block = bin_at(heap, page->size_class, length, block)) != NULL; length++)
        mark(idle, page, block);
    return length;
}

static void mark_free(struct idle* idle, const struct page* page) {
    struct queue_position position = page_free_begin(page);
    const struct block* block;
    while ((block = page_free_next(page, &position)) != NULL) mark(idle, page, block);
}

static bool visit_small(struct heap* heap, const struct page* page, bool blocks,
                        page_visitor* visit, void* context) {
    struct idle idle = {{0}};
    const size_t carved = page_use(page)->carved;
    size_t used = page_use(page)->used;
    if (page_list(page) == PAGE_CURRENT) used -= mark_bin(&idle, heap, page);
    if (blocks) mark_free(&idle, page);
    const struct visited_page area = {
        .blocks = page->start,
        .reserved_bytes = page->bytes,
        .carved_bytes = carved * page->block_bytes,
        .used = used,
        .block_bytes = page_usable_bytes(page),
        .stride_bytes = page->block_bytes,
    };
    if (!visit(context, &area, NULL)) return false;
    for (size_t i = 0; blocks && i < carved; i++) {
        if ((idle.bits[i / 64] >> (i % 64) & 1) != 0) continue;
        if (!visit(context, &area, (char*)area.blocks + i * area.stride_bytes)) return false;
    }
    return true;
}

// Another thread may free the block during the call. Then the result is outdated, or the function
// returns false.
static KEEL_UNRACED bool area_of_large(const struct page* page, struct visited_page* area) {
    uintptr_t owner = atomic_get_acquire(&page->owner);
    size_t bytes = page->bytes;
    size_t usable = page_usable_bytes(page);
    *area = (struct visited_page){page->start, bytes, bytes, 1, usable, bytes, true};
    if ((owner & PAGE_GUARDED) != 0) { // in a place of its own; as wide as a block of its class
        area->reserved_bytes = bytes + 2 * SYSTEM_PAGE;
        area->large = page->size_class >= CLASS_COUNT;
        if (!area->large) area->stride_bytes = size_class_bytes[page->size_class];
    }
    return (owner & (PAGE_LARGE | PAGE_JUMBO)) != 0 && atomic_get_ordered(&page->owner) == owner;
}

bool page_visit(struct heap* heap, const struct page* page, bool blocks, page_visitor* visit,
                void* context) {
    if (!page_is_large(page)) return visit_small(heap, page, blocks, visit, context);
    struct visited_page area;
    if (!area_of_large(page, &area)) return true;
    return visit(context, &area, NULL) && (!blocks || visit(context, &area, area.blocks));
}

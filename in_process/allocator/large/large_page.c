// The page of a large block: its begin, its end, and the state words of the secure flavour.
#include "allocator/large/large.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/policy.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/thread.h"

void large_enter(char* start, size_t bytes, uintptr_t flags) {
    KEEL_ASSERT((uintptr_t)start % PACKED_UNIT == 0 && bytes > 0);
    KEEL_ASSERT((flags & PAGE_LARGE) != 0 && (flags & ~(uintptr_t)PAGE_FLAGS) == 0);
    struct page* page = page_of(start);
    KEEL_ASSERT(atomic_get(&page->owner) == 0);
    page->start = start;
    page->bytes = bytes;
    page->block_bytes = 0;
    page->distance = 0;
    page->sparse = 0;
    atomic_set_release(&page->owner, flags);
}

void large_begin(char* start, size_t slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0);
    large_enter(start, slices * SLICE_BYTES, PAGE_LARGE);
}

void large_end(struct page* page) {
    KEEL_ASSERT(page->start != NULL && (atomic_get(&page->owner) & PAGE_LARGE) != 0);
    fill_end(page->start, page->bytes);
    policy_end_sparse(page);
    atomic_set_release(&page->owner, 0);
}

void large_seal(struct page* page, size_t size) {
    KEEL_ASSERT(!KEEL_SECURE || page->start != NULL);
    page->usable = large_good_size(size);
    large_reseal(page);
}

static void set_state(const struct page* page, uint64_t value) {
    for (unsigned i = 0; KEEL_SECURE && i < LARGE_STATE_WORDS; i++) large_state(page)[i] = value;
}

void large_unseal(const struct page* page) {
    set_state(page, 0);
}

void large_reseal(const struct page* page) {
    set_state(page, large_state_value(page));
}

void large_verify_state(const struct page* page) {
    uint64_t differs = 0;
    for (unsigned i = 0; i < LARGE_STATE_WORDS; i++)
        differs |= large_state(page)[i] ^ large_state_value(page);
    if (differs == 0) return;
    panic_block(FAULT_OVERFLOW, page->start,
                (struct fault_block){.bytes = page->usable, .thread = os_thread_id()});
}

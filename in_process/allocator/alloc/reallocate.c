#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/guarded/guarded.h"
#include "allocator/large/large.h"
#include "allocator/page/empty_block.h"
#include "allocator/space/arena.h"
#include "allocator/warm/reserve.h"
#include "base/options.h"
#include "base/panic.h"
#include <string.h>

// Returns NULL if the address is in no page of small blocks and no large block begins in its slice.
static struct page* live_page_around(const void* address) {
    struct page* page = page_around(address);
    return atomic_get(&page->owner) == 0 ? NULL : page;
}

// The program may have an address inside a block of a user heap (user_heap.h).
static size_t usable_at(const struct page* page, const void* address) {
    KEEL_ASSERT(atomic_get(&page->owner) != 0);
    size_t offset = page_is_in_user_heap(page) ? user_block_offset(page, address) : 0;
    return page_usable_bytes(page) - block_tail(page, (const char*)address - offset) - offset;
}

size_t block_usable_bytes(const void* address) {
    struct page* page = live_page_around(address);
    return page == NULL ? 0 : usable_at(page, address);
}

unsigned block_partition(const void* address) {
    struct page* page = live_page_around(address);
    if (EMPTY_BLOCKS && page == NULL && empty_block_is_live(address))
        return empty_block_partition(address);
    return page == NULL ? 0 : page_partition(page);
}

bool block_is_ours(const void* address) {
    return live_page_around(address) != NULL || (EMPTY_BLOCKS && empty_block_is_live(address));
}

// If the block is more than twice as large as needed, a copy to a smaller block saves memory.
static bool fits_well(size_t size, size_t usable) {
    return size <= usable && size >= usable / 2;
}

// Resizes in place or by moving page tables. The block stays in its heap.
static void* resize_large(struct page* page, size_t size) {
    KEEL_ASSERT(page_is_large(page) && !page_is_in_user_heap(page) && !page_is_guarded(page));
    struct heap* heap = page_heap(atomic_get(&page->owner));
    unsigned row = large_row(page->bytes);
    unsigned partition = page->partition;
    large_unseal(page);
    void* resized = large_resize(page, size + LARGE_STATE_BYTES);
    if (resized == NULL) {
        large_reseal(page);
        return NULL;
    }
    if (KEEL_SECURE) {
        page_of(resized)->partition = (uint8_t)partition;
        large_seal(page_of(resized), size);
    }
    unsigned now = large_row(page_of(resized)->bytes);
    if (now != row) user_heap_count_large(heap, now);
    alloc_quantum();
    return resized;
}

// The block stays where it is. In the secure flavour its end is that of the new size.
static void* shorten(struct page* page, void* address, size_t size) {
    if (!KEEL_SECURE || page_is_in_user_heap(page)) return address;
    if (!page_is_large(page)) {
        block_seal(address_untagged(address), page->block_bytes, size);
    } else {
        large_unseal(page);
        large_seal(page, size);
    }
    return address;
}

// What the block has room for: in the secure flavour its end may be that of a smaller request.
static size_t room_at(const struct page* page, size_t usable) {
    if (!KEEL_SECURE || page_is_in_user_heap(page)) return usable;
    if (page_is_large(page)) return page->bytes - LARGE_STATE_BYTES;
    return page_usable_bytes(page);
}

static void* resize_without_copy(struct page* page, void* address, size_t size) {
    const size_t usable = usable_at(page, address);
    const size_t room = room_at(page, usable);
    bool large = page->block_bytes == 0;
    if (!large || page_is_in_user_heap(page) || page_is_guarded(page)) {
        if (size > usable || !fits_well(size, room)) return NULL;
        // What the request leaves of a block is written (block_seal): not more than in a new one.
        if (block_may_have_tail(page->block_bytes) && room - size > room / 8) return NULL;
        return shorten(page, address, size);
    }
    size_t rest = room / 8 > SLICE_BYTES ? room / 8 : SLICE_BYTES; // not worth a change
    // A sized free that is verified admits no block of more than twice its size.
    bool fits = size >= room / 2 || option_get(OPTION_SIZED_FREE) == SIZED_FREE_ANY;
    if (fits && size <= usable && size + rest > room) return shorten(page, address, size);
    return resize_large(page, size);
}

bool reallocate_in_place(void* address, size_t size) {
    struct page* page = live_page_around(address);
    return page != NULL && size <= usable_at(page, address);
}

// The secure flavour ends the process if `address` is not a live block.
static void verify_live(const struct page* page, const void* address) {
    bool user = page_is_in_user_heap(page);
    const char* block = address_untagged(address);
    if (user && user_heap_of(page_heap(atomic_get(&page->owner)))->inner)
        block -= user_block_offset(page, address);
    if (!page_is_large(page)) {
        if (!block_is_live(page, block)) block_fault_at_free(page, block);
        if (block_may_have_tail(page->block_bytes)) block_verify_tail(page, block);
    } else {
        if (block != page->start) panic(FAULT_FREE_MISALIGNED, address);
        large_verify(page);
    }
}

// In no live block: ends the process if the address is Keel's, and where foreign blocks may not be
// passed to it.
static void require_foreign(const void* address) {
    guarded_free_unknown(address);
    large_require_not_freed(address);
    bool ours = slices_contain(address) || (KEEL_SECURE && large_contains(address));
    if (ours || (KEEL_SECURE && option_get(OPTION_FOREIGN_FREE) != 0))
        panic(FAULT_FREE_NOT_ALLOCATED, address);
}

size_t block_verified_bytes(const void* address) {
    const struct page* page = live_page_around(address);
    if (page == NULL) {
        if (address != NULL && !empty_block_is_live(address)) require_foreign(address);
        return 0;
    }
    verify_live(page, address);
    return usable_at(page, address);
}

// A block that grows by a small step gets a quarter more than it had, so that not every step copies
// it.
static size_t size_with_room(size_t usable) {
    size_t room = usable + usable / 4;
    return room < REQUEST_CLASS_MAX ? room : REQUEST_CLASS_MAX;
}

// A block that should shrink stays if it cannot be copied: programs do not expect a failure then.
static void* stay(void* address) {
    atomic_set(&shrink_was_refused, 1);
    return address;
}

static void* copy_to(void* address, size_t usable, size_t size, size_t wanted) {
    KEEL_ASSERT(address != NULL && wanted >= size);
    void* copy = alloc_hit_or_from_bin(wanted);
    // A block that was a mapping and shrinks takes any place: it rarely grows again.
    bool shrinks = size < usable && usable >= LARGE_MOVABLE_BYTES;
    if (copy == NULL) copy = shrinks ? alloc_slow(wanted) : alloc_movable(wanted);
    if (copy == NULL) return size <= usable ? stay(address) : NULL;
    memcpy(copy, address, size < usable ? size : usable);
    free_block(address);
    return copy;
}

// In the partition of the block.
static void* resize(struct page* page, void* address, size_t size) {
    void* resized = resize_without_copy(page, address, size);
    if (resized != NULL) return resized;
    size_t usable = usable_at(page, address);
    size_t room = size <= usable ? size : size_with_room(usable);
    return copy_to(address, usable, size, size < room ? room : size);
}

void* reallocate(void* address, size_t size) {
    struct page* page = live_page_around(address);
    if (page == NULL) require_foreign(address);
    // The length of a foreign block is unknown.
    if (page == NULL || !large_is_possible(size, 1)) return NULL;
    if (KEEL_SECURE && !block_is_surely_live(page, address)) verify_live(page, address);
    if (KEEL_UNLIKELY(page_is_guarded(page))) guarded_verify(page, address);
    unsigned before = partition_enter(page_partition(page));
    void* resized = resize(page, address, size);
    partition_leave(before);
    return resized;
}

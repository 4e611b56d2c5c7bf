#include "allocator/arena/window.h"
#include "os/memory.h"

struct page_map page_map;
struct windows windows;

#define METADATA_BYTES (WINDOW_HEADER_BYTES + WINDOW_SLICES * sizeof(struct page))

static atomic_word* offset_of(const void* address) {
    return &page_map.offset[(uint16_t)((uintptr_t)address >> WINDOW_SHIFT)];
}

static struct window* window_of_offset(uintptr_t offset) {
    return (struct window*)((char*)page_map.dummy + offset - WINDOW_HEADER_BYTES);
}

struct window* window_find(const void* address) {
    uintptr_t offset = atomic_get_acquire(offset_of(address));
    return offset == 0 ? NULL : window_of_offset(offset);
}

struct window* window_for(const void* address) {
    struct window* window = window_find(address);
    if (window != NULL) return window;

    char* metadata = os_map(METADATA_BYTES, os_page_bytes());
    if (metadata == NULL) return NULL;
    os_forbid_huge_pages(metadata, METADATA_BYTES);
    window = (struct window*)metadata;
    window->base = (char*)round_down((uintptr_t)address, WINDOW_BYTES);

    uintptr_t expected = 0;
    uintptr_t offset = (uintptr_t)(metadata + WINDOW_HEADER_BYTES) - (uintptr_t)page_map.dummy;
    if (!atomic_try_word(offset_of(address), &expected, offset)) { // another thread was first
        os_unmap(metadata, METADATA_BYTES);
        return window_of_offset(expected);
    }
    return window;
}

bool window_owns(const void* address) {
    struct window* window = window_find(address);
    if (window == NULL) return false;
    size_t index = ((uintptr_t)address - (uintptr_t)window->base) / SUPERBLOCK_BYTES;
    return atomic_get(&window->superblocks[index].owned) != 0;
}

// Enters the window into the list that allocation searches, once: the list is filled from its first
// entry on, so two threads that enter the same window meet at the same entry, and only one of them
// fills it. False: the list is full.
static bool window_list(struct window* window) {
    for (uintptr_t i = 0; i < WINDOWS_MAX; i++) {
        uintptr_t entry = atomic_get_acquire(&windows.entry[i]);
        if (entry == 0 && atomic_try_word(&windows.entry[i], &entry, (uintptr_t)window))
            entry = (uintptr_t)window;
        if (entry != (uintptr_t)window) continue;
        // Also for who finds it there: it may not be counted yet.
        uintptr_t count = atomic_get(&windows.count);
        while (count <= i && !atomic_try_word(&windows.count, &count, i + 1)) continue;
        return true;
    }
    return false;
}

// Makes reserved, superblock-aligned memory available. Superblocks whose window cannot be made are
// left out.
static bool region_add(char* start, size_t bytes) {
    bool any = false;
    for (size_t at = 0; at < bytes; at += SUPERBLOCK_BYTES) {
        struct window* window = window_for(start + at);
        if (window == NULL || !window_list(window)) continue;
        unsigned index = (unsigned)((uintptr_t)(start + at - window->base) / SUPERBLOCK_BYTES);
        struct superblock* superblock = &window->superblocks[index];
        atomic_set(&superblock->owned, 1);
        (void)atomic_or_ordered(&superblock->free, ~UINT64_C(0));
        for (unsigned bucket = 0; bucket < RUN_BUCKETS; bucket++) {
            superblock_set_add(&window->by_run[bucket], index);
        }
        any = true;
    }
    return any;
}

bool window_grow(unsigned superblocks) {
    char* start = os_map(WINDOW_BYTES, WINDOW_BYTES);
    size_t bytes = WINDOW_BYTES;
    if (start == NULL) {
        bytes = 16 * SUPERBLOCK_BYTES;
        start = os_map(bytes, SUPERBLOCK_BYTES);
    }
    if (start == NULL) {
        bytes = superblocks * SUPERBLOCK_BYTES;
        start = os_map(bytes, SUPERBLOCK_BYTES);
    }
    if (start == NULL) return false;
    os_forbid_huge_pages(start, bytes);
    if (region_add(start, bytes)) return true;
    os_unmap(start, bytes);
    return false;
}

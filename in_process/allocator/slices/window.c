#include "allocator/slices/window.h"
#include "os/memory.h"

struct page_map page_map;
struct windows windows;

#define METADATA_BYTES (WINDOW_HEADER_BYTES + 2 * PAGE_USE_DISTANCE)

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
    if (atomic_get(&window->whole) != 0) return true;
    size_t index = ((uintptr_t)address - (uintptr_t)window->base) / SUPERBLOCK_BYTES;
    return atomic_get(&window->superblocks[index].open) != 0;
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

// Makes `count` reserved superblocks from `index` on available; all of one word of the sets.
static void superblocks_open(struct window* window, unsigned index, unsigned count) {
    for (unsigned i = index; i < index + count; i++) {
        atomic_set(&window->superblocks[i].open, ~UINT64_C(0));
        (void)atomic_or_ordered(&window->superblocks[i].free, ~UINT64_C(0));
    }
    for (unsigned bucket = 0; bucket < RUN_BUCKETS; bucket++) {
        superblock_set_add_range(&window->by_run[bucket], index, count);
    }
}

// Makes reserved, superblock-aligned memory available. Superblocks whose window cannot be made are
// left out.
static bool range_open(char* start, size_t bytes) {
    bool any = false;
    for (size_t at = 0; at < bytes; at += SUPERBLOCK_BYTES) {
        struct window* window = window_for(start + at);
        if (window == NULL || !window_list(window)) continue;
        superblocks_open(window,
                         (unsigned)((uintptr_t)(start + at - window->base) / SUPERBLOCK_BYTES), 1);
        any = true;
    }
    return any;
}

// Where the next piece of the window reserved last is opened; the middle of a window: nowhere.
static atomic_word next_to_open;

static bool nothing_left(uintptr_t next) {
    return next == 0 || next % WINDOW_BYTES == HUGE_ZONE_FIRST * SUPERBLOCK_BYTES;
}

// Opens the next piece of the lower half of a window. False: there is none left.
static bool piece_open(void) {
    uintptr_t next = atomic_get_acquire(&next_to_open);
    for (unsigned tries = 0; tries < 8 && !nothing_left(next); tries++) {
        uintptr_t after = next + OPEN_SUPERBLOCKS * SUPERBLOCK_BYTES;
        if (!atomic_try_word(&next_to_open, &next, after)) continue;
        struct window* window = window_find((void*)next);
        superblocks_open(window, (unsigned)((next - (uintptr_t)window->base) / SUPERBLOCK_BYTES),
                         OPEN_SUPERBLOCKS);
        return true;
    }
    return !nothing_left(next); // others open as we do: there is something new to look at
}

// Reserves a window of which nothing is open yet. False: the system refuses.
static bool window_reserve(void) {
    uintptr_t exhausted = atomic_get(&next_to_open);
    char* start = os_map(WINDOW_BYTES, WINDOW_BYTES);
    if (start == NULL) return false;
    os_forbid_huge_pages(start, WINDOW_BYTES);
    struct window* window = window_for(start);
    bool listed = window != NULL && window_list(window); // before anything of it is open
    if (!listed || !nothing_left(exhausted) ||
        !atomic_try_word(&next_to_open, &exhausted, (uintptr_t)start)) {
        os_unmap(start, WINDOW_BYTES); // another thread was faster, or no memory for the metadata
        return listed;
    }
    atomic_set(&window->whole, 1);
    superblock_set_add_range(&window->closed, HUGE_ZONE_FIRST,
                             WINDOW_SUPERBLOCKS - HUGE_ZONE_FIRST);
    return true;
}

bool window_grow(unsigned superblocks) {
    if (piece_open()) return true;
    if (window_reserve() && piece_open()) return true;

    size_t bytes = 16 * SUPERBLOCK_BYTES;
    char* start = os_map(bytes, SUPERBLOCK_BYTES);
    if (start == NULL) {
        bytes = superblocks * SUPERBLOCK_BYTES;
        start = os_map(bytes, SUPERBLOCK_BYTES);
    }
    if (start == NULL) return false;
    os_forbid_huge_pages(start, bytes);
    if (range_open(start, bytes)) return true;
    os_unmap(start, bytes);
    return false;
}

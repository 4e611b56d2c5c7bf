#include "allocator/slices/prefault.h"
#include "allocator/slices/window.h"
#include "base/bits.h"
#include "os/memory.h"

#define ENTRIES 32u
// An entry is an address, with the number of pages in these bits; 0: none.
#define PAGES_MASK (SYSTEM_PAGE - 1)

static atomic_word requests[ENTRIES];

static unsigned distance_at(unsigned index) {
    unsigned distance = 1 + index / 2;
    return distance < PREFAULT_DISTANCE_MAX ? distance : PREFAULT_DISTANCE_MAX;
}

void prefault_request(char* start, unsigned index, unsigned pages) {
    unsigned from = index == 0 ? 1 : index + distance_at(index - 1);
    unsigned end = index + 1 + distance_at(index);
    if (end > pages) end = pages;
    if (from >= end) return;
    uintptr_t first = (uintptr_t)start + from * SYSTEM_PAGE;
    atomic_word* request = &requests[(uintptr_t)start / SLICE_BYTES % ENTRIES];
    uintptr_t before = atomic_get(request);
    uintptr_t before_pages = before & PAGES_MASK;
    uintptr_t entry = first | (end - from);
    if (before != 0 && (before & ~PAGES_MASK) + before_pages * SYSTEM_PAGE == first)
        entry = before + (end - from); // it continues a request that is still pending
    atomic_set(request, entry);
}

size_t prefault_populate(void) {
    size_t count = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        if (atomic_get(&requests[i]) == 0) continue;
        uintptr_t entry = atomic_swap(&requests[i], 0);
        if (entry == 0) continue;
        (void)os_populate((void*)(entry & ~PAGES_MASK), (entry & PAGES_MASK) * SYSTEM_PAGE);
        count++;
    }
    return count;
}

bool prefault_is_requested(void) {
    for (unsigned i = 0; i < ENTRIES; i++) {
        if (atomic_get(&requests[i]) != 0) return true;
    }
    return false;
}

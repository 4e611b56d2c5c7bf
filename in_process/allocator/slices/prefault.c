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

static atomic_word* request_of(const char* start) {
    return &requests[(uintptr_t)start / SLICE_BYTES % ENTRIES];
}

void prefault_request(char* start, unsigned index, unsigned pages) {
    unsigned from = index == 0 ? 1 : index + distance_at(index - 1);
    unsigned end = index + 1 + distance_at(index);
    if (end > pages) end = pages;
    if (from >= end) return;
    uintptr_t first = (uintptr_t)start + from * SYSTEM_PAGE;
    atomic_word* request = request_of(start);
    uintptr_t before = atomic_get(request);
    uintptr_t before_pages = before & PAGES_MASK;
    uintptr_t entry = first | (end - from);
    if (before != 0 && (before & ~PAGES_MASK) + before_pages * SYSTEM_PAGE == first)
        entry = before + (end - from); // it continues a request that is still pending
    atomic_set(request, entry);
}

// Not before `first`: the content of a carved block may end in the same system page.
static void provide(char* start, char* first, unsigned end) {
    os_provide(first, (size_t)(start + end * SYSTEM_PAGE - first));
}

bool prefault_late(char* start, char* first, unsigned pages) {
    unsigned index = (unsigned)((uintptr_t)(first - start) / SYSTEM_PAGE);
    atomic_word* request = request_of(start);
    uintptr_t entry = atomic_get(request);
    uintptr_t at = (uintptr_t)start + index * SYSTEM_PAGE;
    uintptr_t end = (entry & ~PAGES_MASK) + (entry & PAGES_MASK) * SYSTEM_PAGE;
    if (at < (entry & ~PAGES_MASK) || at >= end) return false;
    if (!atomic_try_word(request, &entry, 0)) return false;
    size_t count = (end - at) / SYSTEM_PAGE;
    if (count < index) count = index < PREFAULT_NOW_MAX ? index : PREFAULT_NOW_MAX;
    if (count > pages - index) count = pages - index;
    provide(start, first, index + (unsigned)count);
    return true;
}

// How many system pages to populate at `index`. 0: an earlier call has populated it.
static unsigned pages_at(unsigned index, unsigned resident, bool fills) {
    if (fills || index >= PREFAULT_NOW_MAX) {
        unsigned in_group = index % PREFAULT_NOW_MAX;
        return in_group == 0 || index == resident ? PREFAULT_NOW_MAX - in_group : 0;
    }
    return (index & (index - 1)) == 0 ? index : 0;
}

bool prefault_now(char* start, char* first, unsigned pages, unsigned resident, bool fills) {
    unsigned index = (unsigned)((uintptr_t)(first - start) / SYSTEM_PAGE);
    if (!fills && index < 2) return false;
    unsigned count = pages_at(index, resident, fills);
    if (count == 0) return true;
    if (count > pages - index) count = pages - index;
    provide(start, first, index + count);
    return true;
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

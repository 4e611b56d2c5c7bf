// Secure flavour: where blocks are, and when their addresses are reused.
#include "check.h"

#include <keel/heap.h>
#include <keel/keel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRINT_TO "PLACEMENT_PRINT_TO" // the descriptor that a new process prints an address to

enum { SLICE = 65536, ROUNDS = 20000 };

// The number of frees in the page of a block, and what it was when the block was freed. The pages
// of a test are in one window of 4 GiB, and those of up to 8 KiB blocks are one slice.
static uint32_t frees[SLICE];
static struct freed {
    uintptr_t block;
    uint32_t at;
} freed[1u << 16];

static size_t slice_of(uintptr_t block) {
    return block / SLICE % SLICE;
}
static struct freed* entry_of(uintptr_t block) {
    size_t at = (size_t)(block * UINT64_C(0x9e3779b97f4a7c15) >> 48);
    while (freed[at].block != 0 && freed[at].block != block) at = (at + 1) % (1u << 16);
    return &freed[at];
}

static void check_waits(size_t size) {
    enum { LIVE = 400 };
    static void* live[LIVE];
    uint64_t random = size;
    uint32_t shortest = UINT32_MAX;
    memset(frees, 0, sizeof frees);
    memset(freed, 0, sizeof freed);
    memset(live, 0, sizeof live);
    for (int i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        void** place = &live[(random >> 33) % LIVE];
        if (*place != NULL) {
            uint32_t now = ++frees[slice_of((uintptr_t)*place)];
            *entry_of((uintptr_t)*place) = (struct freed){(uintptr_t)*place, now};
            kl_free(*place);
        }
        *place = kl_malloc(size);
        CHECK(*place != NULL);
        const struct freed* entry = entry_of((uintptr_t)*place);
        if (entry->block == 0) continue;
        uint32_t waited = frees[slice_of(entry->block)] - entry->at;
        if (waited < shortest) shortest = waited;
    }
    for (int i = 0; i < LIVE; i++) kl_free(live[i]);
    size_t capacity = SLICE / (kl_usable_size(kl_malloc(size)) + 8);
    CHECK_WITH(shortest != UINT32_MAX && shortest >= (capacity + 4) / 8,
               "%zu bytes: reused after %u frees, %zu blocks in a page", size, shortest, capacity);
}

// Not for pages of few blocks: they end when all of their blocks are free, and begin anew.
TEST(a_small_block_waits_for_an_eighth_of_its_page) {
    static const size_t sizes[] = {8, 64, 200, 1000, 4000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_waits(sizes[i]);
}

// How many of the blocks come right after the one that came before them in `order`.
static unsigned neighbours(void* const* order, void* const* blocks, unsigned count) {
    unsigned found = 0;
    for (unsigned i = 1; i < count; i++) {
        for (unsigned k = 1; k < count; k++)
            found += order[k - 1] == blocks[i - 1] && order[k] == blocks[i];
    }
    return found;
}

// In the order of frees it would be all of them; by chance it is one in 16.
TEST(the_order_of_reuse_is_random) {
    enum { BLOCKS = 1024 };
    static void* first[BLOCKS];
    static void* second[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) first[i] = kl_malloc(100);
    for (int i = 0; i < BLOCKS; i++) kl_free(first[i]);
    for (int i = 0; i < BLOCKS; i++) second[i] = kl_malloc(100);
    unsigned found = neighbours(first, second, BLOCKS);
    CHECK_WITH(found < BLOCKS / 4, "%u of %d blocks follow their predecessor", found, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) kl_free(second[i]);
}

TEST(the_order_of_the_first_use_is_random) {
    enum { BLOCKS = 1024 };
    static char* blocks[BLOCKS];
    unsigned ascending = 0;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = kl_malloc(100);
    for (int i = 1; i < BLOCKS; i++) ascending += blocks[i] == blocks[i - 1] + 112;
    CHECK_WITH(ascending < BLOCKS / 4, "%u of %d blocks are in order", ascending, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
}

// In a process that has its own key and its own choice of a window: this program with an argument
// that selects no test but prints the address.
static uintptr_t first_address_of_a_new_process(void) {
    int ends[2];
    uintptr_t address = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", ends[1]);
        setenv(PRINT_TO, text, 1);
        execl("/proc/self/exe", "placement", (char*)NULL);
        _exit(1);
    }
    close(ends[1]);
    CHECK(read(ends[0], &address, sizeof address) == sizeof address);
    close(ends[0]);
    check_child(__FILE__, __LINE__, child);
    return address;
}

TEST(addresses_differ_from_run_to_run) {
    enum { RUNS = 6 };
    uintptr_t seen[RUNS];
    unsigned equal = 0;
    for (int i = 0; i < RUNS; i++) {
        seen[i] = first_address_of_a_new_process();
        CHECK(seen[i] != 0);
        for (int k = 0; k < i; k++) equal += seen[k] >> 32 == seen[i] >> 32;
    }
    CHECK_WITH(equal < 2, "%u of %d runs have the same window", equal, RUNS);
}

static bool is_accessible(uintptr_t page) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    bool accessible = write(ends[1], (const void*)page, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return accessible;
}
static bool is_mapped(uintptr_t page) {
    unsigned char resident;
    return mincore((void*)page, 4096, &resident) == 0;
}

// The memory around the data of a heap ends at guards: pages that are mapped but not accessible.
TEST(heaps_are_between_pages_without_access) {
    enum { PAGES_MAX = 2048 };
    uintptr_t heap = (uintptr_t)kl_heap_new() & ~(uintptr_t)4095;
    CHECK(heap != 0 && is_accessible(heap));
    for (int way = -1; way <= 1; way += 2) {
        uintptr_t page = heap;
        int pages = 0;
        for (; is_accessible(page); page += (uintptr_t)(way * 4096)) CHECK(++pages < PAGES_MAX);
        CHECK_WITH(is_mapped(page), "%s the heap is a hole", way < 0 ? "before" : "behind");
    }
}

__attribute__((constructor)) static void print_address(void) {
    const char* descriptor = getenv(PRINT_TO);
    if (descriptor == NULL) return;
    uintptr_t address = (uintptr_t)kl_malloc(100);
    _exit(write(atoi(descriptor), &address, sizeof address) != sizeof address);
}

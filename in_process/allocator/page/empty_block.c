#include "allocator/page/empty_block.h"
#include "allocator/space/partition.h"
#include "base/atomic.h"
#include "base/panic.h"
#include "os/memory.h"

#define BLOCKS 65536u
#define BYTES ((size_t)BLOCKS * EMPTY_BLOCK_DISTANCE)
#define LOOKS 16u

static atomic_word region; // 0: not mapped
static atomic_state next[PARTITIONS];
static KEEL_LARGE atomic_bits live[BLOCKS / 64];

static uintptr_t region_map(void) {
    char* start = os_map_closed(BYTES, os_page_bytes());
    if (start == NULL) return 0;
    uintptr_t none = 0;
    if (atomic_try_word(&region, &none, (uintptr_t)start)) return (uintptr_t)start;
    (void)os_unmap(start, BYTES); // another thread was faster
    return none;
}

static uint64_t bit_of(unsigned index) {
    KEEL_ASSERT(index < BLOCKS);
    return UINT64_C(1) << index % 64;
}

// The distance from the start of the region; BYTES or more: not in it.
static size_t distance_of(const void* address) {
    uintptr_t start = atomic_get_acquire(&region);
    return start == 0 ? SIZE_MAX : (uintptr_t)address - start;
}

void* empty_block_allocate(void) {
    uintptr_t start = atomic_get_acquire(&region);
    if (start == 0 && (start = region_map()) == 0) return NULL;
    const unsigned partition = partition_now();
    KEEL_ASSERT(partition < PARTITIONS);
    for (unsigned look = 0; look < LOOKS; look++) {
        unsigned index = atomic_add(&next[partition], 1) * PARTITIONS % BLOCKS + partition;
        uint64_t before = atomic_or_ordered(&live[index / 64], bit_of(index));
        if ((before & bit_of(index)) == 0)
            return (void*)(start + (uintptr_t)index * EMPTY_BLOCK_DISTANCE);
    }
    return NULL;
}

bool empty_block_is_live(const void* address) {
    size_t distance = distance_of(address);
    if (distance >= BYTES || distance % EMPTY_BLOCK_DISTANCE != 0) return false;
    unsigned index = (unsigned)(distance / EMPTY_BLOCK_DISTANCE);
    return (atomic_get(&live[index / 64]) & bit_of(index)) != 0;
}

bool empty_block_free(const void* address) {
    size_t distance = distance_of(address);
    if (distance >= BYTES) return false;
    if (distance % EMPTY_BLOCK_DISTANCE != 0) panic(FAULT_FREE_MISALIGNED, address);
    unsigned index = (unsigned)(distance / EMPTY_BLOCK_DISTANCE);
    uint64_t before = atomic_and_ordered(&live[index / 64], ~bit_of(index));
    if ((before & bit_of(index)) == 0) panic(FAULT_FREE_NOT_ALLOCATED, address);
    return true;
}

unsigned empty_block_partition(const void* address) {
    KEEL_ASSERT(distance_of(address) < BYTES);
    return (unsigned)(distance_of(address) / EMPTY_BLOCK_DISTANCE % PARTITIONS);
}

#include "states.h"
#include "allocator/alloc/alloc.h"
#include "allocator/heap/relief.h"
#include "allocator/space/packed.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "check.h"
#include "keel/keel.h"
#include "keel/runtime.h"
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void become_new_thread(void) {
    thread_heap = (struct heap*)&heap_none;
}

static void nothing(void) {}

// 2 TiB of address space in 1,024 windows, with a hole of four slices in each run of 64 MiB.
static void much_space(void) {
    enum { RUNS = 32768, HOLE = 4 };
    for (unsigned i = 0; i < RUNS; i++) {
        char* run = run_allocate(RUN_SLICES_MAX).start;
        CHECK(run != NULL);
        run_release(run + 10 * SLICE_BYTES, HOLE);
    }
    CHECK(atomic_get(&windows.count) >= 1024);
}

// 4 GiB of single slices, each second one free: no superblock has two free slices side by side.
static void fragments(void) {
    enum { SLICES = 65536 };
    static char* slices[SLICES];
    for (unsigned i = 0; i < SLICES; i++) CHECK((slices[i] = run_allocate(1).start) != NULL);
    for (unsigned i = 0; i < SLICES; i += 2) run_release(slices[i], 1);
}

// 4,000 heaps of living threads, and 4,000 of ended ones, with blocks of many classes.
static void many_heaps(void) {
    enum { HEAPS = 4000, CLASSES = 20 };
    struct heap* own = thread_heap;
    for (unsigned i = 0; i < 2 * HEAPS; i++) { // all live at the same time first
        become_new_thread();
        CHECK(heap_acquire() != NULL);
        for (size_t c = 1; c <= CLASSES; c++) kl_free(kl_malloc(i % CLASSES * 100 + 16 * c));
    }
    unsigned left = 0;
    for (struct heap* heap = heap_first(); left < HEAPS; heap = heap->next_all, left++) {
        thread_heap = heap;
        heap_leave();
    }
    thread_heap = own;
}

// Another thread has freed `count` blocks, each once, in an order that jumps between pages: nearly
// each is a batch. `stride` divides `count`, or has no divisor in common with it.
static void send_batches(unsigned count, size_t bytes, unsigned stride) {
    static void* blocks[65536];
    struct heap* own = thread_heap;
    for (unsigned i = 0; i < count; i++) CHECK((blocks[i] = kl_malloc(bytes)) != NULL);
    become_new_thread();
    for (size_t i = 0; i < count; i++) {
        size_t turns = count % stride == 0 ? i * stride / count : 0;
        kl_free(blocks[(i * stride + turns) % count]);
    }
    kl_thread_idle();
    thread_heap = own;
    CHECK(!remote_queue_is_empty(&own->remote_queue));
}
static void long_queue(void) {
    send_batches(65536, 200, 7919); // a prime
}

// The keeper has examined some of the pages whose blocks another thread has freed, one of them with
// 8,191 blocks of 8 bytes.
static void unfinished_relief(void) {
    struct heap* own = thread_heap;
    send_batches(8191, 8, 1);
    send_batches(65536, 2000, 32);
    for (unsigned i = 0; i < 10; i++) CHECK(heap_relieve(own, false));
}

// Nothing more can be obtained from the system.
static void limited(void) {
    struct kl_process process;
    kl_process_info(&process);
    (void)kl_limit(process.held_bytes);
}

void limit_address_space(size_t bytes_left) {
    unsigned long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    size_t bytes = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes_left;
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

// 18 GiB of packed blocks, in more windows than one search looks at. Each second block is freed:
// the gaps, with room before and behind in their slices, are too small for most other blocks.
static void scarce_space(void) {
    enum { BLOCKS = 100000 };
    static void* gaps[BLOCKS / 2];
    limit_address_space((size_t)20 << 30);
    for (unsigned i = 0; i < 64; i++) CHECK(kl_malloc((size_t)2 << 20) != NULL); // from here on
    CHECK(space_is_scarce());
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = i % 2 == 0 ? 66000 + i % 1000 : 200000 + (size_t)i * 7919 % 200000;
        void* block = kl_malloc(size);
        CHECK(block != NULL);
        if (i % 2 == 0) gaps[i / 2] = block;
    }
    CHECK(atomic_get(&windows.count) > PACKED_WINDOWS);
    for (unsigned i = 0; i < BLOCKS / 2; i++) kl_free(gaps[i]);
}

static void cached_mappings(void) {
    enum { COUNT = 600 };
    static void* blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        CHECK((blocks[i] = kl_malloc(((size_t)65 << 20) + i * SLICE_BYTES)) != NULL);
    for (unsigned i = 0; i < COUNT; i++) kl_free(blocks[i]);
}

static void everything(void) {
    fragments();
    much_space();
    many_heaps();
    cached_mappings();
    long_queue();
    unfinished_relief();
}

const struct state states[STATES] = {
    [STATE_NEW] = {"new process", nothing},
    [STATE_SPACE] = {"2 TiB of space", much_space},
    [STATE_FRAGMENTS] = {"fragmented windows", fragments},
    [STATE_HEAPS] = {"8,000 heaps", many_heaps},
    [STATE_MAPPINGS] = {"600 mappings freed", cached_mappings},
    [STATE_QUEUE] = {"65,536 remote frees", long_queue},
    [STATE_RELIEF] = {"unfinished relief", unfinished_relief},
    [STATE_SCARCE] = {"scarce space", scarce_space},
    [STATE_LIMIT] = {"memory limit", limited},
    [STATE_ALL] = {"all but the limits", everything},
};

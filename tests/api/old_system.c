// Systems that refuse: an old one (no guards in a mapping before Linux 6.13, no populating before
// 5.14), memory that cannot be emptied, mappings that cannot be closed. Blocks of calloc are zero
// all the same, and memory that is asked for in advance takes no page fault later.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POPULATE_WRITE = 23, DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

static bool refuses_discard, refuses_closing;
static unsigned refused;

int madvise(void* start, size_t bytes, int advice) {
    bool unknown = advice == POPULATE_WRITE || advice == DONTNEED_LOCKED ||
                   advice == GUARD_INSTALL || advice == GUARD_REMOVE;
    if (unknown || (refuses_discard && advice == MADV_DONTNEED)) {
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

void* mmap(void* hint, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (refuses_closing && (flags & MAP_FIXED) != 0 && protection == PROT_NONE) {
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void*)syscall(SYS_mmap, hint, bytes, protection, flags, file, offset);
}

static size_t not_zero(const char* block, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += block[i] != 0;
    return count;
}

// Blocks of each size are written and freed, and come back after the keeper had time to guard,
// empty and return them.
static void zeroed(void) {
    static const size_t sizes[] = {3000, 9000, 40000, 200000, 2500 << 10, 6 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = 12, ROUNDS = 12 };
    static char* blocks[SIZES][BLOCKS];
    size_t wrong = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            for (unsigned k = 0; k < BLOCKS; k++) {
                size_t bytes = sizes[i];
                char* block = k % 2 == 0 ? kl_calloc(1, bytes) : kl_partition_calloc(1, 1, bytes);
                CHECK(block != NULL);
                wrong += not_zero(block, bytes) != 0;
                memset(block, 'S', bytes);
                blocks[i][k] = block;
            }
        }
        for (unsigned i = 0; i < SIZES; i++)
            for (unsigned k = 0; k < BLOCKS; k++) kl_free(blocks[i][k]);
        kl_collect(round % 3 == 2);
        sleep_ms(60);
    }
    CHECK_WITH(wrong == 0, "%zu blocks of calloc are not zero", wrong);
}

TEST(blocks_are_zero_on_an_old_system) {
    zeroed();
}

TEST(blocks_are_zero_if_memory_cannot_be_emptied) {
    refused = 0;
    refuses_discard = refuses_closing = true;
    zeroed();
    refuses_discard = refuses_closing = false;
    CHECK(refused > 0);
}

TEST(memory_is_warmed_by_touching) {
    enum { BLOCKS = 100, BYTES = 60000 };
    static char* blocks[BLOCKS];
    struct rusage before, after;
    refused = 0;
    CHECK(kl_warm((size_t)16 << 20) == (size_t)16 << 20);
    CHECK(refused > 0);
    CHECK(getrusage(RUSAGE_THREAD, &before) == 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
        memset(blocks[i], 1, BYTES);
    }
    CHECK(getrusage(RUSAGE_THREAD, &after) == 0);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    long more = after.ru_minflt - before.ru_minflt; // cold memory: 15 for each block
    CHECK_WITH(more <= BLOCKS, "%ld page faults in %d blocks", more, BLOCKS);
}

// A program that locks its memory and uses it once takes no page fault afterwards: Keel discards
// and unmaps none of it, whatever becomes free.
#include "check.h"
#include "memory.h"

#include <keel/keel.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

// Of this thread.
static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt;
}

// Blocks of many sizes are used and freed, and large ones, which are mappings of their own.
static void work(unsigned round) {
    static char* large[3];
    for (unsigned i = 0; i < 3; i++) {
        size_t bytes = (size_t)(5 << i) << 20;
        CHECK((large[i] = kl_malloc(bytes)) != NULL);
        memset(large[i], 1, bytes);
    }
    for (unsigned i = 0; i < 3; i++) kl_free(large[i]);
    enum { BLOCKS = 5000 };
    static char* blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = kl_malloc(100 + (i * 37 + round) % 3000)) != NULL);
        memset(blocks[i], 1, 100);
    }
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
}

TEST(locked_memory_stays) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) SKIP("memory cannot be locked: no privilege");
    for (unsigned round = 0; round < 10; round++) work(round);
    sleep_ms(2500); // all that Keel would return is returned
    long before = faults();
    for (unsigned round = 0; round < 50; round++) work(round);
    long more = faults() - before;
    CHECK_WITH(more == 0, "%ld page faults", more);
}

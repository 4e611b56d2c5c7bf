#include "base/bits.h"
#include "os/call.h"
#include "os/file.h"
#include "os/huge.h"
#include "os/memory.h"
#include "os/process.h"
#include <errno.h>
#include <sys/mman.h>

#define HUGE_SHIFT_PLACE 26 // MAP_HUGE_SHIFT
#define NODES_MAX 1024u
#define PREFERRED 1 // MPOL_PREFERRED

static bool bind_to(void* start, size_t bytes, int node) {
    unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    if ((unsigned)node >= NODES_MAX) return false;
    mask[(unsigned)node / (8 * sizeof *mask)] |= 1ul << ((unsigned)node % (8 * sizeof *mask));
    return os_call(SYS_mbind, start, bytes, PREFERRED, mask, NODES_MAX) == 0;
}

// Over what is reserved there. False: the system has no such pages, and the range is as before or
// unmapped.
static bool map_step(char* at, size_t bytes, unsigned shift, int node) {
    enum { POPULATE_WRITE = 23 }; // MADV_POPULATE_WRITE
    unsigned flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB;
    flags |= shift << HUGE_SHIFT_PLACE;
    if (os_call_failed(os_call(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, flags, -1)))
        return false;
    if (node >= 0) (void)bind_to(at, bytes, node); // a node that is full lends from the next
    // The pages are ours since mmap. What fails here is a limit of a control group, which would
    // else end the process at the first touch; a kernel before 5.14 cannot be asked.
    intptr_t result = os_call(SYS_madvise, at, bytes, POPULATE_WRITE);
    return result == 0 || result == -EINVAL;
}

size_t os_map_huge(size_t pages, unsigned shift, size_t step, int node, uint64_t deadline_ms,
                   void** start) {
    if (pages == 0 || pages > SIZE_MAX >> shift) return 0;
    char* range = os_map_closed(pages << shift, (size_t)1 << shift);
    size_t mapped = 0;
    while (range != NULL && mapped < pages) {
        size_t here = pages - mapped < step ? pages - mapped : step;
        if (!map_step(range + (mapped << shift), here << shift, shift, node)) break;
        mapped += here;
        if (os_clock_ms() >= deadline_ms) break;
    }
    if (range != NULL && mapped < pages)
        os_unmap(range + (mapped << shift), (pages - mapped) << shift);
    *start = range;
    return mapped;
}

// Like "0-1,4": the last number and one.
static unsigned end_of_list(const char* text) {
    unsigned last = 0;
    unsigned number = 0;
    for (; *text != '\0' && *text != '\n'; text++) {
        bool digit = *text >= '0' && *text <= '9';
        number = digit ? number * 10 + (unsigned)(*text - '0') : 0;
        if (number > last && number < NODES_MAX) last = number;
    }
    return last + 1;
}

unsigned os_numa_nodes(void) {
    char list[256];
    if (!os_file_read("/sys/devices/system/node/has_memory", list, sizeof list))
        (void)os_file_read("/sys/devices/system/node/online", list, sizeof list);
    return end_of_list(list);
}

unsigned os_numa_node(void) {
    unsigned cpu, node = 0;
    return os_call(SYS_getcpu, &cpu, &node, NULL) == 0 ? node : 0;
}

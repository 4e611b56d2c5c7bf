#include "base/bits.h"
#include "os/huge.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE_SHIFT_PLACE 26 // MAP_HUGE_SHIFT
#define NODES_MAX 1024u

static bool bind_to(void* start, size_t bytes, int node) {
    unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    if ((unsigned)node >= NODES_MAX) return false;
    mask[(unsigned)node / (8 * sizeof *mask)] |= 1ul << ((unsigned)node % (8 * sizeof *mask));
    return syscall(SYS_mbind, start, bytes, MPOL_PREFERRED, mask, (unsigned long)NODES_MAX, 0) == 0;
}

// Over what is reserved there. False: the system has no such pages, and the range is as before or
// unmapped.
static bool map_step(char* at, size_t bytes, unsigned shift, int node) {
    void* got = mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB |
                         (int)(shift << HUGE_SHIFT_PLACE),
                     -1, 0);
    if (got == MAP_FAILED) return false;
    if (node >= 0) (void)bind_to(at, bytes, node); // a node that is full lends from the next
    // The pages are ours since mmap. What fails here is a limit of a control group, which would
    // else end the process at the first touch; a kernel before 5.14 cannot be asked.
    return madvise(at, bytes, 23 /* MADV_POPULATE_WRITE */) == 0 || errno == EINVAL;
}

// Address space of which nothing can be touched, aligned.
static char* reserve(size_t bytes, size_t alignment) {
    if (bytes > SIZE_MAX - alignment) return NULL;
    char* start = mmap(NULL, bytes + alignment, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char* aligned = (char*)round_up((uintptr_t)start, alignment);
    size_t before = (size_t)(aligned - start);
    if (before > 0) os_unmap(start, before);
    os_unmap(aligned + bytes, alignment - before);
    return aligned;
}

size_t os_map_huge(size_t pages, unsigned shift, size_t step, int node, uint64_t deadline_ms,
                   void** start) {
    int saved = errno;
    if (pages == 0 || pages > SIZE_MAX >> shift) return 0;
    char* range = reserve(pages << shift, (size_t)1 << shift);
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
    errno = saved;
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
    int saved = errno;
    char list[256];
    ssize_t length = 0;
    int cancelling = os_cancel_disable();
    int file = open("/sys/devices/system/node/has_memory", O_RDONLY | O_CLOEXEC);
    if (file < 0) file = open("/sys/devices/system/node/online", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        length = read(file, list, sizeof list - 1);
        (void)close(file);
    }
    os_cancel_restore(cancelling);
    list[length > 0 ? length : 0] = '\0';
    errno = saved;
    return end_of_list(list);
}

unsigned os_numa_node(void) {
    unsigned cpu;
    unsigned node = 0;
    int saved = errno;
    if (getcpu(&cpu, &node) != 0) node = 0;
    errno = saved;
    return node;
}

// Address space and pages with the functions of POSIX only. It has no advice that returns the
// memory of pages and makes them zero. Instead a new mapping replaces the old one.
#include "os/memory.h"
#include "base/bits.h"
#include "os/count.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

size_t os_page_bytes(void) {
    static atomic_word cached; // every thread writes the same value
    uintptr_t known = atomic_get(&cached);
    if (known == 0) {
        long bytes = sysconf(_SC_PAGESIZE);
        known = bytes > 0 ? (uintptr_t)bytes : 4096;
        atomic_set(&cached, known);
    }
    return known;
}

static void* map(void* hint, size_t bytes, int protection, int more_flags) {
    int saved = errno;
    void* start = mmap(hint, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
    errno = saved;
    os_count_call(EVENT_MAP);
    return start == MAP_FAILED ? NULL : start;
}

static bool protect(void* start, size_t bytes, int protection) {
    int saved = errno;
    bool done = mprotect(start, bytes, protection) == 0;
    errno = saved;
    os_count_call(EVENT_MAP);
    return done;
}

bool os_unmap(void* start, size_t bytes) {
    int saved = errno;
    bool done = munmap(start, bytes) == 0;
    errno = saved;
    os_count_call(EVENT_UNMAP);
    if (!done) (void)os_discard(start, bytes);
    return done;
}

// Maps more than that, and unmaps what lies before and behind the aligned part.
static void* map_aligned(size_t bytes, size_t alignment, int protection) {
    char* start = map(NULL, bytes, protection, 0);
    if (start == NULL || ((uintptr_t)start & (alignment - 1)) == 0) return start;
    (void)os_unmap(start, bytes);

    const size_t more = alignment - os_page_bytes();
    if (bytes > SIZE_MAX - more) return NULL;
    start = map(NULL, bytes + more, protection, 0);
    if (start == NULL) return NULL;
    char* aligned = (char*)round_up((uintptr_t)start, alignment);
    char* end = start + bytes + more;
    if (aligned > start) (void)os_unmap(start, (size_t)(aligned - start));
    if (aligned + bytes < end) (void)os_unmap(aligned + bytes, (size_t)(end - aligned) - bytes);
    return aligned;
}

void* os_map(size_t bytes, size_t alignment) {
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE);
}

void* os_map_closed(size_t bytes, size_t alignment) {
    return map_aligned(bytes, alignment, PROT_NONE);
}

void* os_map_readable(size_t bytes) {
    return map(NULL, bytes, PROT_READ, 0);
}

enum os_placing os_map_at(void* start, size_t bytes) {
    void* place = map(start, bytes, PROT_READ | PROT_WRITE, 0);
    if (place == start) return OS_PLACED;
    if (place == NULL) return OS_REFUSED;
    (void)os_unmap(place, bytes);
    return OS_TAKEN;
}

bool os_allow_writing(void* start, size_t bytes) {
    return protect(start, bytes, PROT_READ | PROT_WRITE);
}

void os_forbid_writing(void* start, size_t bytes) {
    (void)protect(start, bytes, PROT_READ);
}

void os_forbid_access(void* start, size_t bytes) {
    (void)protect(start, bytes, PROT_NONE);
}

void os_close(void* start, size_t bytes) {
    if (map(start, bytes, PROT_NONE, MAP_FIXED) != NULL) return;
    memset(start, 0, bytes);
    os_forbid_access(start, bytes);
}

bool os_discard(void* start, size_t bytes) {
    count_event(EVENT_PURGE, 1);
    return map(start, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) != NULL;
}

void* os_find_place(size_t bytes) {
    void* start = map(NULL, bytes, PROT_NONE, 0);
    if (start != NULL) (void)os_unmap(start, bytes);
    return start;
}

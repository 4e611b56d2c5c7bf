// Address space and pages with the functions of POSIX only. It has no advice that returns the
// memory of pages and makes them zero. Instead a new mapping replaces the old one.
#include "os/memory.h"
#include "base/bits.h"
#include "base/counters.h"
#include "os/thread.h"
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

static void count_call(enum event event) {
    count_event(event, 1);
    if (!os_thread_is_own) count_event(EVENT_INLINE_CALLS, 1);
}

static void* map(void* hint, size_t bytes, int protection, int more_flags) {
    int saved = errno;
    void* start = mmap(hint, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
    errno = saved;
    count_call(EVENT_MAP);
    return start == MAP_FAILED ? NULL : start;
}

static bool protect(void* start, size_t bytes, int protection) {
    int saved = errno;
    bool done = mprotect(start, bytes, protection) == 0;
    errno = saved;
    count_call(EVENT_MAP);
    return done;
}

bool os_unmap(void* start, size_t bytes) {
    int saved = errno;
    bool done = munmap(start, bytes) == 0;
    errno = saved;
    count_call(EVENT_UNMAP);
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

bool os_memory_is_locked(void) {
    return false;
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

// POSIX can shorten a mapping, but neither extend nor move one.
bool os_remap(void* start, size_t old_bytes, size_t new_bytes) {
    return new_bytes <= old_bytes &&
           (new_bytes == old_bytes || os_unmap((char*)start + new_bytes, old_bytes - new_bytes));
}

void os_zero(void* start, size_t bytes) {
    memset(start, 0, bytes);
}

// The pages are the caller's. (An atomic operation that changes nothing is only a read with clang.)
bool os_populate(void* start, size_t bytes) {
    count_call(EVENT_POPULATE);
    for (size_t at = 0; at < bytes; at += os_page_bytes())
        *((volatile char*)start + at) = *((volatile char*)start + at);
    return true;
}

void os_touch(void* start, size_t bytes) {
    const size_t unit = os_page_bytes();
    const uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t at = (uintptr_t)start; at < end; at = round_down(at, unit) + unit)
        *(volatile char*)at = 0;
}

void os_provide(void* start, size_t bytes) {
    os_touch(start, bytes);
}

bool os_touch_huge(void* start, size_t bytes, uint64_t* took_us) {
    (void)bytes;
    *took_us = 0;
    os_touch(start, os_page_bytes());
    return false;
}

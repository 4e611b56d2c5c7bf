#include "base/atomic.h"
#include "base/bits.h"
#include "os/call.h"
#include "os/confined.h"
#include "os/count.h"
#include "os/file.h"
#include "os/memory.h"
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

size_t os_page_bytes(void) {
    static atomic_word cached; // every thread writes the same value
    uintptr_t known = atomic_get(&cached);
    if (known == 0) {
        known = getauxval(AT_PAGESZ); // sysconf would touch more of the C library
        if (known == 0) known = 4096;
        atomic_set(&cached, known);
    }
    return known;
}

// At `hint` if nothing is mapped there, else anywhere. Memory that can be written counts for the
// system's limits of memory in advance: it refuses more than it could ever provide.
static void* map_near(void* hint, size_t bytes, int protection) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if ((protection & PROT_WRITE) == 0) flags |= MAP_NORESERVE;
    intptr_t start = os_call(SYS_mmap, hint, bytes, protection, flags, -1);
    os_count_call(EVENT_MAP);
    return os_call_failed(start) ? NULL : (void*)start;
}

static void* map_anywhere(size_t bytes, int protection) {
    return map_near(NULL, bytes, protection);
}

static void* map_aligned(size_t bytes, size_t alignment, int protection) {
    char* start = map_anywhere(bytes, protection);
    if (start == NULL || ((uintptr_t)start & (alignment - 1)) == 0) return start;

    // Map more and cut off what lies before and behind the aligned part.
    os_unmap(start, bytes);
    size_t slack = alignment - os_page_bytes();
    if (bytes + slack < bytes) return NULL;
    start = map_anywhere(bytes + slack, protection);
    if (start == NULL) return NULL;
    size_t before = round_up((uintptr_t)start, alignment) - (uintptr_t)start;
    if (before > 0) os_unmap(start, before);
    if (slack > before) os_unmap(start + before + bytes, slack - before);
    return start + before;
}

void* os_map(size_t bytes, size_t alignment) {
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE);
}

void* os_map_closed(size_t bytes, size_t alignment) {
    return map_aligned(bytes, alignment, PROT_NONE);
}

void os_close(void* start, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    intptr_t place = os_call(SYS_mmap, start, bytes, PROT_NONE, flags, -1);
    os_count_call(EVENT_MAP);
    if (!os_call_failed(place)) return;
    if (!os_discard(start, bytes)) memset(start, 0, bytes);
    os_forbid_access(start, bytes);
}

// MAP_FIXED_NOREPLACE would save the munmap, but sanitizers move a mapping with that flag to
// address 0, and old kernels ignore it.
enum os_placing os_map_at(void* start, size_t bytes) {
    void* place = map_near(start, bytes, PROT_READ | PROT_WRITE);
    if (place == start) return OS_PLACED;
    if (place == NULL) return OS_REFUSED;
    os_unmap(place, bytes);
    return OS_TAKEN;
}

void* os_map_readable(size_t bytes) {
    return map_anywhere(bytes, PROT_READ);
}

static bool protect(void* start, size_t bytes, int protection) {
    intptr_t result = os_call(SYS_mprotect, start, bytes, protection);
    os_count_call(EVENT_MAP);
    return result == 0;
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

bool os_unmap(void* start, size_t bytes) {
    bool done = os_call(SYS_munmap, start, bytes) == 0;
    os_count_call(EVENT_UNMAP);
    if (!done) (void)os_discard(start, bytes);
    return done;
}

static intptr_t remap(void* start, size_t old_bytes, size_t new_bytes, int flags, void* target) {
    intptr_t result = os_call(SYS_mremap, start, old_bytes, new_bytes, flags, target);
    os_count_call(EVENT_REMAP);
    return result;
}

bool os_remap(void* start, size_t old_bytes, size_t new_bytes) {
    return !os_call_failed(remap(start, old_bytes, new_bytes, 0, NULL));
}

void* os_remap_anywhere(void* start, size_t old_bytes, size_t new_bytes) {
    intptr_t result = remap(start, old_bytes, new_bytes, MREMAP_MAYMOVE, NULL);
    return os_call_failed(result) ? NULL : (void*)result;
}

void* os_remap_content(void* start, size_t bytes, void* place) {
    enum { DONT_UNMAP = 4 }; // MREMAP_DONTUNMAP, which older headers do not have
    intptr_t result = remap(start, bytes, bytes, MREMAP_MAYMOVE | DONT_UNMAP, place);
    return os_call_failed(result) ? NULL : (void*)result;
}

void* os_find_place(size_t bytes) {
    // Without access, so that a program that locks its memory does not get all of it populated.
    void* start = map_anywhere(bytes, PROT_NONE);
    if (start != NULL) os_unmap(start, bytes);
    return start;
}

static intptr_t discard(char* start, size_t bytes) {
    os_count_call(EVENT_PURGE);
    return os_call(SYS_madvise, start, bytes, MADV_DONTNEED);
}

static atomic_state is_locked; // the last range to be discarded

bool os_memory_is_locked(void) {
    return atomic_get(&is_locked) != 0;
}

// The system refuses if the program has locked a page of the range. If it has locked both ends, all
// of it counts as locked. Else only some blocks are, and the other pages go back.
bool os_discard(void* start, size_t bytes) {
    size_t unit = os_page_bytes();
    char* end = (char*)start + bytes;
    intptr_t result = discard(start, bytes);
    if (result == 0 && atomic_get(&is_locked) != 0) atomic_set(&is_locked, 0);
    if (result != -EINVAL) return result == 0;
    if (discard(start, unit) != 0 && discard(end - unit, unit) != 0) {
        atomic_set(&is_locked, 1);
        return false;
    }
    for (char* at = start; at < end; at += unit) {
        if (discard(at, unit) != 0) memset(at, 0, unit);
    }
    return true;
}

#define ZERO_PAGES 256u // looked at in one system call

// Zeroes the pages that have memory. The others are discarded, because one may be in swap space.
static void zero_resident(char* start, const unsigned char* resident, size_t pages) {
    size_t unit = os_page_bytes();
    for (size_t i = 0; i < pages;) {
        size_t end = i + 1;
        while (end < pages && (resident[end] & 1) == (resident[i] & 1)) end++;
        char* at = start + i * unit;
        bool cleared = (resident[i] & 1) == 0 && os_discard(at, (end - i) * unit);
        if (!cleared) memset(at, 0, (end - i) * unit);
        i = end;
    }
}

void os_zero(void* start, size_t bytes) {
    unsigned char resident[ZERO_PAGES];
    size_t unit = os_page_bytes();
    for (char* at = start; bytes > 0;) {
        size_t here = bytes < ZERO_PAGES * unit ? bytes : ZERO_PAGES * unit;
        if (os_resident(at, here, resident))
            zero_resident(at, resident, here / unit);
        else
            memset(at, 0, here);
        at += here;
        bytes -= here;
    }
}

static atomic_state cannot_populate; // the system has said so: before Linux 5.14

static bool ask_to_populate(void* start, size_t bytes) {
    enum { POPULATE_WRITE = 23 }; // MADV_POPULATE_WRITE, Linux 5.14; older headers lack the name
    intptr_t result = os_call(SYS_madvise, start, bytes, POPULATE_WRITE);
    os_count_call(EVENT_POPULATE);
    if (result == -EINVAL) atomic_set(&cannot_populate, 1);
    return result == 0;
}

// Another thread may write there. (An atomic operation that changes nothing is only a read with
// clang, and a read of a page that nobody has written gives it no memory.)
static void touch_content(void* start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += os_page_bytes()) {
        uint32_t* word = (uint32_t*)((char*)start + at);
        uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        (void)__atomic_compare_exchange_n(word, &seen, seen, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
}

bool os_populate(void* start, size_t bytes) {
    if (ask_to_populate(start, bytes)) return true;
    if (atomic_get(&cannot_populate) == 0) return false;
    touch_content(start, bytes);
    return true;
}

void os_touch(void* start, size_t bytes) {
    size_t unit = os_page_bytes();
    uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t at = (uintptr_t)start; at < end; at = round_down(at, unit) + unit)
        *(volatile char*)at = 0;
}

void os_provide(void* start, size_t bytes) {
    if (os_process_has_one_thread() && atomic_get(&cannot_populate) == 0) {
        uintptr_t from = round_down((uintptr_t)start, os_page_bytes());
        if (ask_to_populate((void*)from, (uintptr_t)start + bytes - from)) return;
    }
    os_touch(start, bytes);
}

bool os_touch_huge(void* start, size_t bytes, uint64_t* took_us) {
    bool asks = os_may_look(); // the call for this clock can be done without
    uint64_t begin_us = asks ? linux_thread_us() : 0;
    os_touch(start, os_page_bytes());
    *took_us = asks ? linux_thread_us() - begin_us : 0;
    return os_page_is_resident((char*)start + bytes - 1);
}

// The same from a file, by calls that the loader has made behind the same filter. Costs three calls
// instead of one.
static bool read_resident(void* start, size_t bytes, unsigned char* resident) {
    enum { ENTRIES = 64 };
    uint64_t entries[ENTRIES]; // one a page; bit 63: it has memory
    const uint64_t first = (uintptr_t)start / os_page_bytes();
    const size_t pages = bytes / os_page_bytes();
    int file = os_file_open("/proc/self/pagemap");
    bool known = file >= 0;
    for (size_t at = 0; at < pages && known; at += ENTRIES) {
        size_t here = pages - at < ENTRIES ? pages - at : ENTRIES;
        known =
            os_file_read_at(file, entries, here * sizeof *entries, (first + at) * sizeof *entries);
        for (size_t i = 0; i < here && known; i++)
            resident[at + i] = (unsigned char)(entries[i] >> 63);
    }
    if (file >= 0) os_file_close(file);
    if (!known) os_see_no_memory();
    return known;
}

bool os_resident(void* start, size_t bytes, unsigned char* resident) {
    if (os_may_look()) return os_call(SYS_mincore, start, bytes, resident) == 0;
    return os_can_see_memory() && read_resident(start, bytes, resident);
}

// A kernel without huge pages refuses both calls, which does no harm.
void os_forbid_huge_pages(void* start, size_t bytes) {
    (void)os_call(SYS_madvise, start, bytes, MADV_NOHUGEPAGE);
}

void os_prefer_huge_pages(void* start, size_t bytes) {
    (void)os_call(SYS_madvise, start, bytes, MADV_HUGEPAGE);
}

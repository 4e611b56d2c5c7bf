// Address space and pages. Every function leaves errno as it was; failures are NULL or false.
// Thread-safe. `bytes` and addresses are multiples of the system's page size.
#ifndef KEEL_OS_MEMORY_H
#define KEEL_OS_MEMORY_H

#include "base/attributes.h"
#include "base/bits.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of a page of the system; constant for the life of the process.
size_t os_page_bytes(void);

// Readable, writable, zero. The address is a multiple of `alignment` (a power of two, at least a
// page). NULL: the system refuses, also what is more than its memory and swap space (unless
// vm.overcommit_memory is 1).
void* os_map(size_t bytes, size_t alignment);
// False: the process has as many mappings as it may have, and the range is a part of one. It stays
// mapped, and its memory is returned.
bool os_unmap(void* start, size_t bytes);

// As os_map, but exactly at `start`, and only if nothing is mapped in that range.
enum os_placing {
    OS_PLACED,
    OS_TAKEN,  // something is mapped there, or there is no such address
    OS_REFUSED // no memory
};
enum os_placing os_map_at(void* start, size_t bytes);

// Readable, all zero; it occupies no memory and is charged to no limit on memory until writing is
// allowed. NULL: the system refuses.
void* os_map_readable(size_t bytes);
// Allows writing to a part of it. False: the system refuses.
bool os_allow_writing(void* start, size_t bytes);
// Forbids writing: the range then has the state that os_map_readable gives it. Nothing may have
// been written there.
void os_forbid_writing(void* start, size_t bytes);

// Guards: pages that cannot be accessed. Where the system can mark pages of a mapping (Linux 6.13),
// their mapping stays one, and other threads can map and unmap memory meanwhile; elsewhere they are
// protected. The first of these functions finds out at its first call, with at most 4 system calls.
bool os_guards_are_light(void);
// Marks the range, which may have been inaccessible before. False: the system refuses.
bool os_mark_guard(void* start, size_t bytes);
// Removes the marks of a range, which then is all zero. False: the system refuses.
bool os_unmark_guard(void* start, size_t bytes);
// Makes the range, which can be written, inaccessible and returns its memory, or zeroes it. False:
// its mapping is divided now.
bool os_guard(void* start, size_t bytes);
// The same for a range that is all zero and has no memory; it may be one that cannot be written.
void os_guard_unused(void* start, size_t bytes);
// Makes it accessible again, all zero. False: the system refuses.
bool os_unguard(void* start, size_t bytes);

// As os_map, with a guard of one page before and one behind.
void* os_map_guarded(size_t bytes);
void os_unmap_guarded(void* start, size_t bytes);

// For metadata: guarded in the secure flavour.
KEEL_INLINE void* os_map_metadata(size_t bytes) {
    return KEEL_SECURE ? os_map_guarded(bytes) : os_map(bytes, os_page_bytes());
}
KEEL_INLINE void os_unmap_metadata(void* start, size_t bytes) {
    if (KEEL_SECURE)
        os_unmap_guarded(start, bytes);
    else
        os_unmap(start, bytes);
}

// Address space that cannot be accessed until os_allow_writing. NULL: the system refuses.
void* os_map_closed(size_t bytes, size_t alignment);
// Returns the memory of the range, which is in such a mapping, and makes it inaccessible again. If
// the system refuses the first, the range is zeroed.
void os_close(void* start, size_t bytes);

// Makes the range inaccessible.
void os_forbid_access(void* start, size_t bytes);

// Shrinks or extends a mapping where it is. False: nothing changed.
bool os_remap(void* start, size_t old_bytes, size_t new_bytes);

// Extends a mapping, elsewhere if need be. Where it is now; NULL: nothing changed.
void* os_remap_anywhere(void* start, size_t old_bytes, size_t new_bytes);

// Moves the content of the range to `place` if nothing is mapped there, else anywhere. Returns the
// new address. The range stays mapped, reads as zero, and occupies no memory. NULL: nothing
// changed; the system cannot (it needs Linux 5.7), or the range is more than one mapping.
void* os_remap_content(void* start, size_t bytes, void* place);

// The address at which the system would map this many bytes now. Maps nothing. NULL: no room.
void* os_find_place(size_t bytes);

// Returns the memory of the pages at once; they read as zero afterwards. A few pages that the
// program has locked keep their memory and are zeroed. False: the program has locked all of them,
// or the system refuses: a part of the range may then be zero, and the rest is unchanged.
bool os_discard(void* start, size_t bytes);
// True if the program had locked all of the range that os_discard was called for last.
bool os_memory_is_locked(void);

// Makes the range zero. Pages that have no memory get none, if the system may be asked.
void os_zero(void* start, size_t bytes);

// Provides pages that the caller owns with memory now, and keeps their content. False: no memory. A
// system before Linux 5.14 cannot refuse: there each page is touched.
bool os_populate(void* start, size_t bytes);

// The same by touching each page, for memory of the caller that has no content: `start` and the
// beginning of each further page are set to 0. os_populate holds the lock of all mappings of the
// process while the system zeroes memory, and other threads that map or unmap wait for
// milliseconds. A page fault does not hold it (Linux 6.4 and later). But it cannot be refused:
// without memory the system ends a process.
void os_touch(void* start, size_t bytes);

// As os_touch. In a program of one thread, where nobody waits: with one call if the system can.
void os_provide(void* start, size_t bytes);

// Touches the first page of a unit for which huge pages are preferred. True: the whole unit has
// memory now. False: it is no huge page, and its other pages have none; or the system may not be
// asked. *took_us: the thread's processor time for it; 0: not known.
bool os_touch_huge(void* start, size_t bytes, uint64_t* took_us);

// For each page of the range: bit 0 of its byte is set if it has memory. False: a part of the range
// is not mapped, or the system does not state it, or may not be asked.
bool os_resident(void* start, size_t bytes, unsigned char* resident);
KEEL_INLINE bool os_page_is_resident(const void* address) {
    unsigned char resident = 0;
    size_t unit = os_page_bytes();
    void* page = (void*)round_down((uintptr_t)address, unit);
    return os_resident(page, unit, &resident) && (resident & 1) != 0;
}

// Asks the system never to use huge pages for this range: zeroing one is a page fault of 300 µs in
// the caller.
void os_forbid_huge_pages(void* start, size_t bytes);

// Asks the system to use huge pages, for a caller that is about to populate the range.
void os_prefer_huge_pages(void* start, size_t bytes);

#endif

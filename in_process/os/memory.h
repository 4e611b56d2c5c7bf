// Address space and pages. Every function leaves errno as it was; failures are NULL or false.
// Thread-safe. `bytes` and addresses are multiples of the system's page size.
#ifndef KEEL_OS_MEMORY_H
#define KEEL_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of a page of the system; constant for the life of the process.
size_t os_page_bytes(void);

// Readable, writable, zero, not charged until touched (NORESERVE). Address is a multiple of
// `alignment` (a power of two, at least a page). NULL when the system refuses.
void* os_map(size_t bytes, size_t alignment);
void os_unmap(void* start, size_t bytes);

// Shrinks or extends a mapping where it is. False: nothing changed.
bool os_remap(void* start, size_t old_bytes, size_t new_bytes);

// Extends a mapping, elsewhere if need be. Where it is now; NULL: nothing changed.
void* os_remap_anywhere(void* start, size_t old_bytes, size_t new_bytes);

// Moves a mapping's pages, not their content, over the mapping at `target` of new_bytes. False:
// nothing changed.
bool os_remap_to(void* start, size_t old_bytes, void* target, size_t new_bytes);

// Moves what the range holds to `place` if nothing is mapped there, else anywhere; where it is now.
// The range stays mapped, and is all zero without memory. NULL (nothing changed): the system cannot
// (Linux 5.7 can), or the range is not one mapping to it.
void* os_remap_content(void* start, size_t bytes, void* place);

// False once the system has shown that it never can.
bool os_remaps_content(void);

// Where so many bytes would be mapped now; nothing is. NULL: nowhere.
void* os_find_place(size_t bytes);

// Gives the pages' memory back at once; they read as zero afterwards. False when the system refuses
// (locked pages): then the content is as it was.
bool os_discard(void* start, size_t bytes);

// Gives the pages memory now, as touching each would. False: not possible here (old kernel, no
// memory).
bool os_populate(void* start, size_t bytes);

// Asks that this range never be backed by huge pages, whose zeroing would be a 300 µs fault on the
// caller.
void os_forbid_huge_pages(void* start, size_t bytes);

// Asks that it be, for a caller that is about to populate it.
void os_prefer_huge_pages(void* start, size_t bytes);

#endif

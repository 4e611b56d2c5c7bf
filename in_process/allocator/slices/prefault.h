// Memory that is about to be carved, and may not be there: a thread that carves a cold page says how far
// it will soon get, and the keeper populates that before it gets there.
//
//   a cold page     | carved .......... | asked for earlier | asked for now |            |
//   system pages    0         1         k        k+1                    k+1+distance
//
// The distance grows with what the page has carved, so that a page that stays small stays small in memory. Asking is
// two accesses to one word of a small table, by any thread at any time. It is a hint: two who ask in the same place
// may lose one, and then the carving takes a page fault as it would have. Populating changes no contents, so
// neither does it matter if the page has ended in between.
#ifndef KEEL_ALLOCATOR_SLICES_PREFAULT_H
#define KEEL_ALLOCATOR_SLICES_PREFAULT_H

#include <stdbool.h>
#include <stddef.h>

#define PREFAULT_DISTANCE_MAX 4u // system pages

// The system page number `index` of the `pages` from `start` on is being carved. O(1).
void prefault_request(char* start, unsigned index, unsigned pages);

// Populates what was asked for; at most one call to the system for each place of the table. The number
// of them. For the keeper.
size_t prefault_populate(void);

// True if something is asked for that has not been looked at.
bool prefault_is_requested(void);

#endif

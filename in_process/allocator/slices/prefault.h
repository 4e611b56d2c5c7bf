// Prefaulting: a thread that carves a cold page requests the system pages that it will soon reach,
// and the keeper populates them before it gets there.
//
//   a cold page     | carved .......... | requested before | requested now |            |
//   system pages    0         1         k        k+1                    k+1+distance
//
// The distance grows with the carved part of the page, so that a page that stays small occupies
// little memory. A request is two accesses to one word of a small table, by any thread at any time.
// It is a hint: of two simultaneous requests in the same entry one may be lost, and then carving
// takes a page fault as usual. Populating changes no contents, so it does no harm if the page has
// ended meanwhile.
#ifndef KEEL_ALLOCATOR_SLICES_PREFAULT_H
#define KEEL_ALLOCATOR_SLICES_PREFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREFAULT_DISTANCE_MAX 4u // system pages
// The smallest size of a system page. Where system pages are larger, carving and prefaulting only
// take smaller steps than necessary.
#define SYSTEM_PAGE ((uintptr_t)4096)

// Called when blocks are carved in system page `index`, one of the `pages` system pages that begin
// at `start`. O(1).
void prefault_request(char* start, unsigned index, unsigned pages);

// Called before, with the first block that will be carved: takes back the request for its system
// page if the keeper has not come to it yet, and populates that system page and some after it, at
// most as many as are carved. True: it is resident now.
bool prefault_late(char* start, char* first, unsigned pages);

// The same without a keeper, or if it is behind. `fills`: the page will probably be carved to its
// end; else at most as many system pages are populated as are carved. The table has the number at
// each index of a system page.
//
//   fills    | 8                      | 8                      |
//   else     | 0 | 0 | 2     | 4            | 8                      |   0: a page fault
//
// `resident`: the system pages before this one were resident when the page began. At most
// PREFAULT_NOW_MAX page faults, or one call to the system (os_provide). True: the system page of
// `first` is resident now, or has been since an earlier call. False: its first touch is a page
// fault.
#define PREFAULT_NOW_MAX 8u // 32 KiB
bool prefault_now(char* start, char* first, unsigned pages, unsigned resident, bool fills);

// Populates the requested pages, with at most one call to the system for each entry of the table.
// Returns the number of calls. For the keeper.
size_t prefault_populate(void);

// True if the table has a request.
bool prefault_is_requested(void);

#endif

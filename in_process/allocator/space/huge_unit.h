// Units of the huge zone (window.h): 2 MiB that are opened by populating them as one huge page, and
// closed when their memory goes back to the system. For the other files of runs and the reserve.
#ifndef KEEL_ALLOCATOR_SPACE_HUGE_UNIT_H
#define KEEL_ALLOCATOR_SPACE_HUGE_UNIT_H

#include "allocator/space/run.h"
#include "allocator/space/window.h"

bool superblock_in_huge_zone(struct window* window, unsigned index);

// The units of the superblock that lie wholly in the mask.
uint64_t huge_units_in(uint64_t mask);

// Closes units that the caller holds: no thread can use them until they are populated again.
void huge_units_close(struct window* window, unsigned index, uint64_t units);

// Takes a unit that is wholly free and occupies memory. 0: none.
uint64_t huge_unit_take_dirty(struct superblock* superblock);

// The run is a unit that the caller has taken: it is about to be populated as a huge page.
void huge_unit_prefer(struct free_run run);

// Maps the group of units behind that of `run`, if it is time to. Later, threads that need a unit
// would have to wait for the one that maps the group. At most 3 system calls, and those of
// window_for.
void huge_units_map_ahead(struct free_run run);

// Asks the system not to join the pages of the units that the run is a part of.
void huge_units_forbid(struct free_run run);

// Verifies the bits of units and groups; only when no other thread is active.
bool huge_units_check(struct window* window);

#endif

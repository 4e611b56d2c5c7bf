// How much memory the keeper may populate ahead of use.
//
// Memory in the reserve counts towards the limits of the control groups of the process. Near a
// limit, populating would make the system reclaim memory from the program, or end a process of the
// group. So the keeper leaves HEADROOM_KEPT to the program, and it pauses after a populate that the
// system refused.
//
// Only the keeper's thread calls these functions.
#ifndef KEEL_ALLOCATOR_KEEPER_HEADROOM_H
#define KEEL_ALLOCATOR_KEEPER_HEADROOM_H

#include "allocator/space/page_map.h"
#include "allocator/warm/reserve.h"
#include <stdbool.h>
#include <stddef.h>

#define HEADROOM_KEPT ((size_t)16 << 20)
#define HEADROOM_READ_MS 100u // how old a reading may be
#define HEADROOM_PAUSE_MIN_MS 100u
#define HEADROOM_PAUSE_MAX_MS 12800u

// A keeper has started: forgets all readings.
void headroom_begin(void);
// True if this many bytes may be populated. Reads the control groups if the last reading is too
// old. A process without a limit reads them once: a sandbox may forbid to open files later.
bool headroom_admits(size_t bytes);

// This many bytes have been populated, or the system has refused. Each refusal in succession
// doubles the pause.
void headroom_used(size_t bytes);
void headroom_refused(void);

#endif

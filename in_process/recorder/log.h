// A recording without a reader: the threads write their own rings to the file NAME. The rings are
// in NAME.rings, so a crash loses nothing (journal/ring.h).
#ifndef KEEL_RECORDER_LOG_H
#define KEEL_RECORDER_LOG_H

#include "journal/ring.h"
#include <stdbool.h>
#include <stdint.h>

// Creates both files and fills in `session`, which no thread may be using. Returns 0 or the errno;
// on failure no file remains.
int log_start(const char* path);

// Reserves memory for ring `index`, the first ring without. False: the file system is full.
bool log_prepare_ring(uint32_t index);

// Appends the published events of a ring to the file and frees their slots. Only the ring's owner
// may call it. False: the file could not be written; its contents stay readable.
bool log_write_ring(struct kl_ring_entry* entry);

// Writes all rings out, ends the file and removes NAME.rings. Returns 0 or the errno. No thread may
// record any more or use `session`.
int log_end(void);

// Unmaps the rings; `session` has none afterwards. A thread may still be in the middle of an event,
// for any length of time: therefore the addresses of the rings in use stay mapped for good, as
// memory that is never read. That costs their address space, and no memory.
void log_release(void);

#endif

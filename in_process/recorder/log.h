// A recording without a reader. The threads write their own rings to the file NAME. The rings are
// in the file NAME.rings, so no event is lost in a crash (journal/ring.h).
#ifndef KEEL_RECORDER_LOG_H
#define KEEL_RECORDER_LOG_H

#include "journal/ring.h"
#include <stdbool.h>
#include <stdint.h>

// Creates both files and fills in `session`. No thread may use `session` during the call. Returns 0
// or the errno. On failure no file remains.
int log_start(const char* path);

// Reserves memory for ring `index`, which is the first ring without memory. False: the file system
// is full.
bool log_prepare_ring(uint32_t index);

// Appends the published events of a ring to the file and frees their slots. Only the ring's owner
// may call it. False: the file could not be written, but its contents stay readable.
bool log_write_ring(struct kl_ring_entry* entry);

// Writes all rings to the file and ends it, unless an earlier write failed (`is_whole` is false).
// Removes NAME.rings if all is written. Returns 0 or the errno. `session` has no rings afterwards.
// No thread may record any more or use `session`, but one may still be writing an event, for any
// length of time. Therefore the addresses of the used rings stay mapped until the process ends, as
// memory that is never read. This costs address space but, on Linux, no memory.
int log_end(bool is_whole);

#endif

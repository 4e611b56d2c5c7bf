/* A recording that nobody reads while it is made: the threads write their own rings out into the
 * file NAME, and the rings lie in NAME.rings, so that a crash loses nothing (journal/ring.h). */
#ifndef KEEL_RECORDER_LOG_H
#define KEEL_RECORDER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "journal/ring.h"

/* Creates both files and fills `session`, in which nobody may be at work. Returns 0 or the errno;
 * nothing is left then. */
int log_start(const char* path);

/* Gives ring `index`, the first without memory, its memory. False: the file system has no room. */
bool log_prepare_ring(uint32_t index);

/* Appends what a ring holds published, and gives the room back. Only the ring's owner may call it.
 * False: the file could not be written; what is in it stays readable. */
bool log_write_ring(struct kl_ring_entry* entry);

/* Writes all rings out, ends the file and removes NAME.rings. Returns 0 or the errno. Nobody may
 * record any more, nor be at work. */
int log_end(void);

/* Lets go of the rings; `session` has none then. A thread may be in the middle of an event, for
 * however long: where its ring was there is memory that nobody reads, for good. That costs the
 * address space of the rings that were taken, and no memory. */
void log_release(void);

#endif

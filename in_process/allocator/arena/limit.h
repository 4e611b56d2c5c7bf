// The most memory that may be handed out to pages and large blocks together.
#ifndef KEEL_ALLOCATOR_ARENA_LIMIT_H
#define KEEL_ALLOCATOR_ARENA_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

// Bytes handed out: what the limit is about.
size_t limit_held_bytes(void);

// True if `bytes` more stay within the limit, or there is none. Of this moment: threads that ask at once may together
// go beyond it by what each of them takes.
bool limit_admits(size_t bytes);

#endif

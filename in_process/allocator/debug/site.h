// The call site of KEEL_FAIL=site=..., as one of:
//
//   NAME, NAME*                        a function; all whose name begins so
//   FILE+0xOFFSET                      a return address, as reports print it
//   FILE+0xFROM-0xTO, 0xFROM-0xTO      return addresses in a range: in a file, in memory
//
// FILE is a path as reports print it, or its last part. A call stack matches if one of its 32
// innermost frames does.
#ifndef KEEL_ALLOCATOR_DEBUG_SITE_H
#define KEEL_ALLOCATOR_DEBUG_SITE_H

#include <stdbool.h>
#include <stddef.h>

// The text must stay. False: it is not valid.
bool site_parse(const char* text, size_t length);
// True if a site is set and the calling thread's stack does not match.
bool site_excludes_caller(void);

#endif

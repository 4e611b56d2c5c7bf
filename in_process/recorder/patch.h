// Changes the beginning of functions that the program contains, so that their calls reach the
// recorder (journal/patches.h).
#ifndef KEEL_RECORDER_PATCH_H
#define KEEL_RECORDER_PATCH_H

#include "journal/patches.h"
#include <stdbool.h>
#include <stdint.h>

// Maps the session's file of patches, which has `count` of them, and finds the objects that they
// are for. Only the first call does something.
void patches_read(const char* folder, uint64_t count);

// Returns the address of the program's function with this index, or 0. ALL_NAMES_COUNT: that of one
// of these functions.
uintptr_t patches_function(uint32_t name);

// Returns true if the address is in an object with such functions. Takes no lock.
bool patches_contain(const void* address);

// Makes calls of the functions reach `entry` (entry.h), and stores in `theirs` where the recorder
// calls them, by the indexes of names.h. Only one thread may run. Returns the state and the errno
// as journal/patches.h describes. On failure, functions may be changed, but all work.
uint32_t patches_apply(uintptr_t entry, uintptr_t* theirs);

#endif

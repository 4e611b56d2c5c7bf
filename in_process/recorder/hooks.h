// Enters the recorder's functions into a program that runs already: it puts their addresses into
// the tables of functions (GOT) of all loaded objects, and removes them again.
#ifndef KEEL_RECORDER_HOOKS_H
#define KEEL_RECORDER_HOOKS_H

#include <stddef.h>

// Looks up the functions that the recorder replaces. Must be called once, before the others.
void hooks_find(void);

// Replaces the functions in every loaded object. May be called again, for objects that were loaded
// since. Takes the loader's lock. Returns the number of addresses that were changed.
size_t hooks_set(void);

// Calls hooks_set if objects were loaded since the last call. Cheap otherwise.
void hooks_renew(void);

// Undoes hooks_set in every object that is still loaded.
size_t hooks_clear(void);

#endif

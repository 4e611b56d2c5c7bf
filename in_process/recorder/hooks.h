// Enters the recorder's functions into a program that runs already: it puts their addresses into
// the tables of functions (GOT) of all loaded objects, and removes them again.
#ifndef KEEL_RECORDER_HOOKS_H
#define KEEL_RECORDER_HOOKS_H

#include <stddef.h>
#include <stdint.h>

// Returns the function that the program finds by this name, or 0. In a program that is not
// position-independent and takes the function's address, dlsym returns a stub in the program, which
// calls the function through a slot that contains a hook later. Stores that stub, or 0: the address
// by which others may know the function.
uintptr_t hooks_definition(const char* name, uintptr_t* stub);

// Looks up the functions that the recorder replaces. Must be called once, before the others.
void hooks_find(void);

// Replaces the functions in every loaded object. May be called again, for objects that were loaded
// since. Takes the loader's lock. Returns the number of addresses that lead to the recorder.
size_t hooks_set(void);

// Calls hooks_set if objects were loaded since the last call. Cheap otherwise.
void hooks_renew(void);

// Keeps forks and hooks_renew apart. May be called again.
void hooks_prepare_fork(void);

// Undoes hooks_set in every object that is still loaded.
void hooks_clear(void);

#endif

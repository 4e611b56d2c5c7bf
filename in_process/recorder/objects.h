// The words in loaded objects that the dynamic loader sets to the addresses of functions: in the
// global offset table, and in data.
#ifndef KEEL_RECORDER_OBJECTS_H
#define KEEL_RECORDER_OBJECTS_H

#include "base/atomic.h"
#include "os/linux_object.h"

// A word that the loader sets to the address of the function `name`.
struct slot {
    size_t table, entry; // where the search for the next one continues
    uintptr_t open;      // a protected page that object_set_slot has made writable; 0: none
    const ElfW(Sym) * symbol;
    const char* name;
    atomic_word* word; // not aligned in a packed structure
    bool is_called;    // only called; until the first call, the address may be in its own object
};

// Returns the number of symbols, or 0 if it is not known.
uint32_t object_symbol_count(const struct object* object);

// Finds the next slot. The first call gets a slot of zeros. Returns false after the last one.
bool object_next_slot(const struct object* object, struct slot* slot);

// Stores an address in a slot, in one store: other threads may call through it. Does nothing where
// the system refuses that. A page that the loader has protected stays writable until a store to
// another page, or object_close, which must follow.
void object_set_slot(const struct object* object, struct slot* slot, uintptr_t address);
void object_close(struct slot* slot);

// Finds the object that contains the address. Takes the lock of the loader.
bool object_find(struct object* object, uintptr_t address);

#endif

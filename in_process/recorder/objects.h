// The objects that the dynamic loader has loaded (dl_iterate_phdr), and the words in them that it
// sets to the addresses of functions: in the global offset table, and in data.
#ifndef KEEL_RECORDER_OBJECTS_H
#define KEEL_RECORDER_OBJECTS_H

#include "base/atomic.h"
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What an object's segments and its dynamic section say. A count of 0: it has no such table.
struct object {
    uintptr_t base;
    uintptr_t start, end;       // of its segments
    uintptr_t relro, relro_end; // the pages that the loader protects after relocation
    const ElfW(Sym) * symbols;
    const char* names;
    const uint32_t* gnu_hash;
    const uint16_t* versions;
    const ElfW(Rela) * tables[2]; // of functions that are bound at the first call, and others
    size_t counts[2];
};

// A word that the loader sets to the address of the function `name`.
struct slot {
    size_t table, entry; // where the search for the next one continues
    const ElfW(Sym) * symbol;
    const char* name;
    atomic_word* word; // not aligned in a packed structure
    bool is_called;    // only called; until the first call, the address may be in its own object
};

// Returns false if the object has no symbols. The segments are stored anyway.
bool object_read(struct object* object, const struct dl_phdr_info* info);

bool object_contains(const struct object* object, uintptr_t address);

// Returns true for the object that contains this code.
bool object_is_ours(const struct object* object);

// Returns the function that the object defines by this name, in its default version, or 0.
uintptr_t object_function(const struct object* object, const char* name);

// Returns the number of symbols, or 0 if it is not known.
uint32_t object_symbol_count(const struct object* object);

// Finds the next slot. The first call gets a slot of zeros. Returns false after the last one.
bool object_next_slot(const struct object* object, struct slot* slot);

// Stores an address in a slot, in one store: other threads may call through it. A slot that the
// loader has protected is protected again. Does nothing where the system refuses that.
void object_set_slot(const struct object* object, const struct slot* slot, uintptr_t address);

#endif

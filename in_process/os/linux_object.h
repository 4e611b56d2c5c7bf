// The objects that the dynamic loader has loaded (dl_iterate_phdr), and what they define.
#ifndef KEEL_OS_LINUX_OBJECT_H
#define KEEL_OS_LINUX_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What an object's segments and its dynamic section say. A count of 0: it has no such table.
struct object {
    uintptr_t base;
    uintptr_t start, end;       // of its segments
    uintptr_t relro, relro_end; // what the loader protects after relocation
    const ElfW(Sym) * symbols;
    const char* names;
    const uint32_t* gnu_hash;
    const uint32_t* hash;
    const uint16_t* versions; // of each symbol, with 0x8000 if it is not the default
    const ElfW(Verdef) * version_names;
    const ElfW(Rela) * tables[2]; // of functions that are bound at the first call, and others
    size_t counts[2];
};

// Returns false if the object has no symbols. The segments are stored anyway.
bool object_read(struct object* object, const struct dl_phdr_info* info);

bool object_contains(const struct object* object, uintptr_t address);

// Returns true for the object that contains this code.
bool object_is_ours(const struct object* object);

// Returns the address of the function or variable that the object defines by this name, in its
// default version, or 0. Functions that choose an implementation at load time (IFUNC) do not count.
// Constant time, but linear in the number of symbols for an object without a GNU hash table.
uintptr_t object_definition(const struct object* object, const char* name);

// Returns the address of the function that the program's calls of this name reach if this object
// comes first: object_definition, or what a definition as IFUNC chooses, or one in a version of the
// C library, which programs ask for by name. The object must have been relocated. Costs the same.
uintptr_t object_function(const struct object* object, const char* name);

// Returns true if the object defines the name in its default version, as IFUNC or otherwise. Costs
// the same.
bool object_defines(const struct object* object, const char* name);

// The same for the objects after the caller's library in the order of look-up.
bool object_next_defines(const char* name);

#endif

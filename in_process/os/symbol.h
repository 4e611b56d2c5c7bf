// Functions by their names in the symbol tables of files.
#ifndef KEEL_OS_SYMBOL_H
#define KEEL_OS_SYMBOL_H

#include "os/stack.h"

// The beginning of a name, or all of it.
struct os_name {
    const char* text; // without a terminator
    size_t length;
    bool is_prefix;
};

// True if a function of the module that contains the module's offset has the name, as the file's
// symbol table states it: mangled for C++. Files without a symbol table have exported functions
// only. Reads the file, allocates nothing. Linear in the number of symbols.
bool os_function_is(const struct os_module* module, struct os_name name);

#endif

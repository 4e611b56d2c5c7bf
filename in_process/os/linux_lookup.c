// Names, in the loaded objects themselves. dlsym waits while another thread runs the constructors
// of a library, which may wait for a malloc; and glibc before 2.34 has it in a library that a
// program need not load.
#include "os/linux_object.h"
#include "os/process.h"
#include <stdlib.h>

typedef uintptr_t definition_function(const struct object* object, const char* name);

struct search {
    const char* name;
    definition_function* definition;
    bool after_own; // nothing counts before this library's object
    uintptr_t found;
};

// The loader lists the objects in the order of look-up, but for those that only one library uses.
static int search_in(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct search* search = data;
    struct object object;
    bool has_symbols = object_read(&object, info);
    if (search->after_own) {
        search->after_own = !object_is_ours(&object);
    } else if (has_symbols) {
        search->found = search->definition(&object, search->name);
    }
    return search->found != 0;
}

static uintptr_t find(const char* name, definition_function* definition, bool after_own) {
    struct search search = {name, definition, after_own, 0};
    (void)dl_iterate_phdr(search_in, &search);
    return search.found;
}

void* os_symbol(const char* name) {
    return (void*)find(name, object_definition, false);
}

void* os_function(const char* name) {
    return (void*)find(name, object_function, false);
}

void* os_next_symbol(const char* name) {
    return (void*)find(name, object_definition, true);
}

static uintptr_t is_defined(const struct object* object, const char* name) {
    return object_defines(object, name);
}

bool object_next_defines(const char* name) {
    return find(name, is_defined, true) != 0;
}

char* os_real_path(const char* path, char* resolved) {
    return realpath(path, resolved);
}

// Names, in the loaded objects themselves. dlsym waits while another thread runs the constructors
// of a library, which may wait for a malloc; and glibc before 2.34 has it in a library that a
// program need not load.
#include "os/linux_object.h"
#include "os/process.h"
#include <stdlib.h>

struct search {
    const char* name;
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
        search->found = object_definition(&object, search->name);
    }
    return search->found != 0;
}

static void* find(const char* name, bool after_own) {
    struct search search = {name, after_own, 0};
    (void)dl_iterate_phdr(search_in, &search);
    return (void*)search.found;
}

void* os_symbol(const char* name) {
    return find(name, false);
}

void* os_next_symbol(const char* name) {
    return find(name, true);
}

char* os_real_path(const char* path, char* resolved) {
    return realpath(path, resolved);
}

#include "os/process.h"
#include <dlfcn.h>
#include <stdlib.h>

void* os_symbol(const char* name) {
    return dlsym(RTLD_DEFAULT, name);
}

void* os_function(const char* name) {
    return os_symbol(name);
}

void* os_next_symbol(const char* name) {
    return dlsym(RTLD_NEXT, name);
}

char* os_real_path(const char* path, char* resolved) {
    return realpath(path, resolved);
}

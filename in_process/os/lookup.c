#include "os/process.h"
#include <dlfcn.h>

void* os_symbol(const char* name) {
    return dlsym(RTLD_DEFAULT, name);
}

void* os_next_symbol(const char* name) {
    return dlsym(RTLD_NEXT, name);
}

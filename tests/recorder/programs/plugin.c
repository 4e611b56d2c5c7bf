/* plugin LIBRARY ROUNDS: opens driver.c's library, uses it, and closes it again. */
#include "common.h"
#include <dlfcn.h>

int main(int count, char** arguments) {
    if (count != 3) return 2;
    for (int i = 0; i < atoi(arguments[2]); i++) {
        void* library = dlopen(arguments[1], RTLD_NOW);
        if (library == NULL) return 3;
        void* (*make)(void) = dlsym(library, "driver_make");
        void* (*grow)(void*) = dlsym(library, "driver_grow");
        void (*destroy)(void*) = dlsym(library, "driver_free");
        if (dlsym(library, "no such function") != NULL || dlerror() == NULL) return 4;
        destroy(grow(make()));
        usleep(30000); /* a real plugin stays loaded at least this long */
        dlclose(library);
    }
    return 0;
}

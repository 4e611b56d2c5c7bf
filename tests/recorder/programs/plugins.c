// Loads two libraries in turn, calls `plugin_allocate` of each, and closes it at once.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** arguments) {
    if (count < 4) return 2;
    int rounds = atoi(arguments[3]);
    for (int i = 0; i < rounds; i++) {
        void* library = dlopen(arguments[1 + i % 2], RTLD_NOW);
        if (library == NULL) {
            puts(dlerror());
            return 1;
        }
        void* (*allocate)(size_t);
        void* found = dlsym(library, "plugin_allocate");
        memcpy(&allocate, &found, sizeof found);
        for (int j = 0; j < 20; j++) free(allocate((size_t)(1000 + i % 2)));
        dlclose(library);
        // Others are in the middle between two looks of the recorder, or long after one.
        usleep((useconds_t)(i % 7) * 1000);
    }
    return 0;
}

/* An ordinary program that checks whose malloc it uses. Exits with 1 if it is not Keel's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    bool (*contains)(const void*);
    *(void**)&contains = dlsym(RTLD_DEFAULT, "kl_contains");
    char* line = NULL;
    size_t room = 0;
    FILE* self = fopen("/proc/self/maps", "r");
    if (self == NULL || getline(&line, &room, self) < 0) return 2; /* libc allocates the line */
    bool ours = contains != NULL && contains(line);
    fclose(self);
    free(line);
    puts(ours ? "malloc is Keel's" : "malloc is not Keel's");
    return !ours;
}

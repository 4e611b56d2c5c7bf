/* A library that is loaded and unloaded while its blocks are live: in a global variable, in a
 * thread-local variable, and in its callers. */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>

__attribute__((visibility("default"))) char* plugin_make(size_t size);

static void* held;
static pthread_key_t key;
static _Thread_local unsigned char scratch[256]; // gives the library a TLS segment

char* plugin_make(size_t size) {
    char* made = malloc(size);
    if (made) pattern_fill(made, size, size);
    scratch[size % sizeof scratch]++;
    free(pthread_getspecific(key));
    pthread_setspecific(key, malloc(64));
    return made;
}

__attribute__((constructor)) static void enter(void) {
    held = calloc(100, 100);
    pthread_key_create(&key, free);
}

__attribute__((destructor)) static void leave(void) {
    free(pthread_getspecific(key));
    pthread_key_delete(key);
    free(held);
}

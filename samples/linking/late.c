/* Loads Keel with dlopen while the program and its threads are running, beside the program's
 * malloc:
 *
 *     late LIBRARY
 *
 * Threads that started before and after the dlopen use it, its blocks outlive dlclose, and a second
 * dlopen finds the same heap. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8
#define BLOCKS 2000

struct keel {
    void* library;
    void* (*malloc)(size_t);
    void (*free)(void*);
    bool (*contains)(const void*);
};

static struct keel keel;
static pthread_barrier_t opened;
static atomic_int failures;

static void* symbol(const char* name) {
    void* found = dlsym(keel.library, name);
    if (found != NULL) return found;
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(1);
}

static void open_keel(const char* path) {
    keel.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (keel.library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void**)&keel.malloc = symbol("kl_malloc");
    *(void**)&keel.free = symbol("kl_free");
    *(void**)&keel.contains = symbol("kl_contains");
}

/* Uses blocks of both mallocs. */
static void allocate_both(void) {
    static _Thread_local char *ours[BLOCKS], *theirs[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = i % 700 + 1;
        ours[i] = memset(keel.malloc(size), 1, size);
        theirs[i] = memset(malloc(size), 2, size);
        if (!keel.contains(ours[i]) || keel.contains(theirs[i])) failures++;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (ours[i][i % 700] != 1 || theirs[i][i % 700] != 2) failures++;
        keel.free(ours[i]);
        free(theirs[i]);
    }
}

static void* run_early(void* unused) {
    free(malloc(100));
    pthread_barrier_wait(&opened);
    allocate_both();
    return unused;
}

static void* run_late(void* unused) {
    allocate_both();
    return unused;
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    pthread_t early[THREADS], late[THREADS];
    pthread_barrier_init(&opened, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&early[i], NULL, run_early, NULL);
    open_keel(arguments[1]);
    pthread_barrier_wait(&opened);
    for (int i = 0; i < THREADS; i++) pthread_create(&late[i], NULL, run_late, NULL);
    char* kept = strcpy(keel.malloc(100), "kept");
    dlclose(keel.library);
    for (int i = 0; i < THREADS; i++) pthread_join(early[i], NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(late[i], NULL);
    for (int i = 0; i < 100; i++) {
        open_keel(arguments[1]);
        if (!keel.contains(kept) || strcmp(kept, "kept") != 0) failures++;
        allocate_both();
        dlclose(keel.library);
    }
    keel.free(kept);
    if (failures != 0) fprintf(stderr, "%d blocks are wrong\n", failures);
    if (failures == 0) puts("Keel was loaded and closed beside the program's malloc");
    return failures != 0;
}

// A program that is not linked with the C library's threads and loads them later, which is possible
// before glibc 2.34. With -DLIBRARY: the library that it loads.
//
//   late LIBRARY    starts threads, one after the other; prints whether their memory is used again
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(LIBRARY)
#include <pthread.h>

enum { BLOCKS = 200, BYTES = 3000 };

static void* fill(void* unused) {
    char* blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BYTES);
        memset(blocks[i], 1, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return unused;
}

// Returns the number of threads that could not be run.
int run_threads(int count) {
    int failed = 0;
    pthread_t thread;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&thread, NULL, fill, NULL) != 0 || pthread_join(thread, NULL) != 0)
            failed++;
    }
    return failed;
}

#else
#include <dlfcn.h>

enum { ROUNDS = 8, THREADS = 250, MOST_KIB = 65536 }; // the blocks of all threads: 1.2 GB

static long peak_kib(void) {
    char line[256];
    long kib = -1;
    FILE* status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "VmHWM: %ld", &kib);
    if (status != NULL) fclose(status);
    return kib;
}

int main(int count, char** arguments) {
    int (*run_threads)(int count);
    void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) return 2;
    *(void**)&run_threads = dlsym(library, "run_threads");
    for (int round = 1; round <= ROUNDS; round++) {
        int failed = run_threads(THREADS);
        printf("round %d: %d failed, %s\n", round, failed,
               peak_kib() <= MOST_KIB ? "memory is used again" : "memory stays");
    }
    return 0;
}
#endif

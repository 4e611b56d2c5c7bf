/* A library for LD_PRELOAD. It counts the calls of the malloc family, and at exit it writes the
 * counts to the file that KEEL_FIXTURE_COUNTS names. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

enum { MALLOC, FREE, CALLOC, REALLOC, ALIGNED, KINDS };
static atomic_long calls[KINDS];

void* malloc(size_t size) {
    return atomic_fetch_add(&calls[MALLOC], 1), __libc_malloc(size);
}
void free(void* block) {
    atomic_fetch_add(&calls[FREE], 1), __libc_free(block);
}
void* calloc(size_t count, size_t size) {
    return atomic_fetch_add(&calls[CALLOC], 1), __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
    return atomic_fetch_add(&calls[REALLOC], 1), __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
    return atomic_fetch_add(&calls[ALIGNED], 1), __libc_memalign(alignment, size);
}

__attribute__((destructor)) static void write_counts(void) {
    const char* path = getenv("KEEL_FIXTURE_COUNTS");
    long now[KINDS];
    for (int kind = 0; kind < KINDS; kind++) now[kind] = atomic_load(&calls[kind]);
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    for (int kind = 0; kind < KINDS; kind++) fprintf(file, "%ld\n", now[kind]);
    fclose(file);
}

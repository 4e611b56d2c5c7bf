/* The definitions that the program would have called without the recorder. Knows nothing of
 * recording. */
#ifndef KEEL_RECORDER_NEXT_H
#define KEEL_RECORDER_NEXT_H

#include <stdbool.h>
#include <stddef.h>

struct next_functions {
    void* (*malloc)(size_t size);
    void (*free)(void* block);
    void* (*calloc)(size_t count, size_t size);
    void* (*realloc)(void* block, size_t size);
    void* (*memalign)(size_t align, size_t size);
    int (*posix_memalign)(void** block, size_t align, size_t size);
    void* (*aligned_alloc)(size_t align, size_t size);
    void* (*valloc)(size_t size);
    void* (*pvalloc)(size_t size);
    size_t (*malloc_usable_size)(void* block);
    void (*free_sized)(void* block, size_t size);                       /* NULL: there is none */
    void (*free_aligned_sized)(void* block, size_t align, size_t size); /* likewise */
};

/* Written once, by the first call of the process. Until then the C library's own names stand in it,
 * because ld.so and dlsym may allocate while we ask them. */
extern struct next_functions next;

/* Looks all of them up behind us in the search order. Called while this thread does not record. */
void next_resolve(void);

/* A function behind us, also in one of `libraries` (NULL-terminated) if a plugin brought it in
 * privately; or NULL. */
void* next_find(const char* name, const char* const* libraries);

/* Whether the function lies in the same object as the malloc that serves the program. */
bool next_is_allocator(void* function);

#endif

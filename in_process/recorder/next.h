// The definitions that the program would call without the recorder. This file does not depend on
// the recording.
#ifndef KEEL_RECORDER_NEXT_H
#define KEEL_RECORDER_NEXT_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The most frequent ones first, in one cache line.
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
    void* (*mmap)(void* address, size_t bytes, int protection, int flags, int file, off_t offset);
    void (*free_sized)(void* block, size_t size);                       // NULL if not defined
    void (*free_aligned_sized)(void* block, size_t align, size_t size); // NULL if not defined
};

// The first call of the process writes it once. Before that it contains the C library's own
// functions, because ld.so and dlsym may allocate while the next definitions are looked up.
extern KEEL_HIDDEN struct next_functions next;

// The definitions of the functions in names.h; 0: there is none. next_has_names: a library of the
// program defines one.
extern uintptr_t next_names[];
extern bool next_has_names;

// By the indexes of names.h: the program defines this function itself, and its calls are recorded
// there. The recorder's function is only called by the program's, which records the operation.
extern bool next_is_inner[];

// The names by their indexes, each with a NUL: `keel record` looks for them in the program.
extern const char kl_record_names[];

// Looks up the functions again in a program into which this library was loaded while it ran.
void next_of_running_program(void);

// Looks up all functions that come after the recorder in the search order. This thread must not
// record during the call.
void next_resolve(void);

// Returns the function that comes after the recorder in the search order. If there is none, returns
// the function of one of `libraries` (NULL-terminated), which a plugin may have loaded privately,
// or NULL.
void* next_find(const char* name, const char* const* libraries);

// Returns true if the function is in the same object as the program's malloc.
bool next_is_allocator(void* function);

// Returns true if the code is in the same object as the program's malloc. Takes no lock.
bool next_is_allocator_code(const void* address);

#endif

// The call stack of the calling thread, and the files from which the process is mapped.
#ifndef KEEL_OS_STACK_H
#define KEEL_OS_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct os_frame {
    uintptr_t address; // where the call returns to
    uintptr_t place;   // where on the stack the address is; 0: not known
};

// Loads the unwinder, and may allocate for that. Until it has been called, os_stack_walk returns 0.
void os_stack_prepare(void);

// Keel's functions, if they are in a shared library. Known once os_stack_prepare has been called.
extern struct os_code {
    uintptr_t start;
    size_t bytes;
} os_own_code;

// Stores the calls that the thread is in, innermost first, and returns their number, at most
// `most`, from the caller's on. Allocates only in libgcc's unwinder. About 0.3 µs for each frame.
unsigned os_stack_walk(struct os_frame* frames, unsigned most);

// Around a fork: between these, os_stack_walk may return 0 in every thread. The last one is for the
// child, after the second.
void os_stack_before_fork(void);
void os_stack_after_fork(void);
void os_stack_repair_in_child(void);

// /proc/self/maps as it was when it was read.
struct os_maps {
    char* text;
    size_t length;
    size_t mapped_bytes;
};
// Makes a few system calls and allocates nothing, so it may run at a fault. False: the system
// refuses, and there are no mappings in `maps`.
bool os_maps_read(struct os_maps* maps);
void os_maps_free(struct os_maps* maps);

struct os_mapping {
    uintptr_t start;
    uintptr_t end;
    uintptr_t file_offset;
    bool readable;
    bool writable;
    bool shared;
    const char* path; // without a terminator
    size_t path_length;
};
// Reads the mapping that is described at text + *at, and moves *at behind it. False: the end.
bool os_maps_next(const struct os_maps* maps, size_t* at, struct os_mapping* mapping);

// The file that is mapped at an address.
struct os_module {
    const char* path; // without a terminator
    size_t path_length;
    uintptr_t offset; // the address as the file states it, for addr2line
};
// False: no file is mapped there.
bool os_maps_find(const struct os_maps* maps, uintptr_t address, struct os_module* module);

// Copies memory of this process that may not be mapped. Returns the number of bytes copied, 0 if
// the system may not be asked (os/confined.h).
size_t os_read_memory(uintptr_t address, void* buffer, size_t bytes);

#endif

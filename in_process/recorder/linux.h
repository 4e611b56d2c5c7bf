// What session.c and linux.c share: the latter is the system layer on Linux (system.h).
#ifndef KEEL_RECORDER_LINUX_H
#define KEEL_RECORDER_LINUX_H

#include <stddef.h>

// Maps a file that the program and the reader share. A forked child does not inherit the mapping,
// so it cannot write into its parent's rings. On failure returns NULL and sets errno.
void* linux_map(int file, size_t bytes);

// Reads the beginning of a file, at most bytes - 1, and appends a NUL. Returns the length; 0 also
// if it cannot be read, and then the text stays as it was or becomes empty.
size_t linux_read_file(const char* path, char* text, size_t bytes);

#endif

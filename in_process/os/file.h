// Files of the system, such as those of /proc.
#ifndef KEEL_OS_FILE_H
#define KEEL_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A number of an open file, or -1, as in a process that has set a filter of system calls.
int os_file_open(const char* path);
void os_file_close(int file);
// Reads until the end of the file or of the buffer. Returns the number of bytes.
size_t os_file_read_open(int file, char* buffer, size_t bytes);
// Reads that many bytes at that offset. False: there are fewer, or the system refuses.
bool os_file_read_at(int file, void* buffer, size_t bytes, uint64_t offset);

// Reads the file's first bytes, fewer than `bytes`, and terminates them. False: there are none.
bool os_file_read(const char* path, char* buffer, size_t bytes);

#endif

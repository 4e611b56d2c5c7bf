// What differs between the two libraries of the recorder: the interposer (next.c), and the embedded
// recorder of a program that reports its own allocator's calls (gate.c). Each library has one of
// the two implementations.
#ifndef KEEL_RECORDER_HOST_H
#define KEEL_RECORDER_HOST_H

#include <stdint.h>

// Called once, before the first event of the process.
void host_prepare(void);

// Path of the object that defines malloc, or the name of the program's own allocator; "" if
// unknown. Valid as long as the process exists.
const char* host_allocator(void);

// The recording has ended: callers need not check any more whether there is one.
void host_stopped(void);

// 1: the program reports its events; 0: they are those of malloc.
uint32_t host_embedded(void);

#endif

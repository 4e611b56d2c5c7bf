/* What the recorder asks of whom it records for: the interposer (next.c) or a program that tells of
 * its own allocator (gate.c). Each of the two libraries has one of them. */
#ifndef KEEL_RECORDER_HOST_H
#define KEEL_RECORDER_HOST_H

#include <stdint.h>

/* Called once, before the first event of the process. */
void host_prepare(void);

/* Path of the object that serves malloc, or what the program calls its allocator; "" if unknown.
 * Lives as long as the process. */
const char* host_allocator(void);

/* The recording has ended: whoever asked before each call whether there is one need not any more. */
void host_stopped(void);

/* 1: the events are those that the program tells; 0: they are malloc's. */
uint32_t host_embedded(void);

#endif

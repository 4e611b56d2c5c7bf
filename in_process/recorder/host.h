// The functions that differ between the two libraries of the recorder: the interposer (next.c), and
// the embedded recorder (gate.c) for programs that report the calls of their own allocator. Each
// library contains one of the two implementations.
#ifndef KEEL_RECORDER_HOST_H
#define KEEL_RECORDER_HOST_H

#include <stdbool.h>
#include <stdint.h>

// Called once, before the first event of the process.
void host_prepare(void);

// Called when the process joins the session `folder`, if its file of patches has `count` of them.
void host_patch(const char* folder, uint64_t count);

// Returns the path of the object that defines malloc, or the name of the program's own allocator,
// or "" if it is unknown. The string is valid until the process ends.
const char* host_allocator(void);

// Returns the path of another object that defines functions of malloc's family, or "". As above.
const char* host_other_allocator(void);

// Called when the recording has ended. From then on callers need not check whether there is one.
void host_stopped(void);

// Called from time to time by threads that record.
void host_look(void);

// Returns 1 if the program reports its own events, and 0 if the events are calls of malloc.
uint32_t host_embedded(void);

// Returns true if unwind_forget is called whenever code is unloaded.
bool host_notices_unloading(void);

#endif

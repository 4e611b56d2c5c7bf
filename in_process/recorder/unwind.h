// Walks the stack of the calling thread. It remembers for each return address how to find the
// caller's frame, so a call in a known place costs some nanoseconds per frame.
#ifndef KEEL_RECORDER_UNWIND_H
#define KEEL_RECORDER_UNWIND_H

// Stores at most `count` return addresses, innermost first. The first one is in the calling
// function. Code without tables needs a frame pointer; otherwise the stack ends there. Returns
// their number, or -1 if a frame needs the C library's unwinder: that of a signal handler, another
// processor than x86-64, or a C library without _dl_find_object.
//
// Does not allocate and takes no lock, so it may run in signal handlers.
int unwind_walk(void** addresses, int count);

// Forgets what is remembered. Must be called when code was unloaded, because other code may be
// loaded in its place.
void unwind_forget(void);

#endif

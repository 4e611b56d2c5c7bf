// Replaces functions of other object files where these object files and the program call them.
//
// A program may look whether an allocator's function exists (a weak symbol, dlsym), so the recorder
// must not define it. Instead it changes the addresses that the dynamic loader has stored in each
// object file for its calls of the function (the global offset table), once, before the program's
// constructors run. Calls within the object file that defines the function are not changed. Neither
// are those of object files that the program opens later, and through addresses from dlsym.
#ifndef KEEL_RECORDER_REDIRECT_H
#define KEEL_RECORDER_REDIRECT_H

#include <stddef.h>
#include <stdint.h>

struct redirect {
    const char* name;
    uintptr_t ours; // 0: the function is not replaced
};

// No other thread may run. The entries must be in the order of strcmp.
void redirect_apply(const struct redirect* entries, size_t count);

#endif

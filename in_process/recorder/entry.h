// The way of a changed function into the recorder (patch.h).
//
// A compiler that sees a function together with its caller knows which registers the function
// leaves unchanged, may keep values in them across a call (GCC's -fipa-ra), and need not align the
// stack. So the way preserves all registers but that of the result, and aligns the stack. The state
// of the vectors is large: 2.5 KiB on the caller's stack, and 180 ns. It is saved only for calls
// that are not simple. The code of a simple one is compiled without vectors (CMakeLists.txt).
#ifndef KEEL_RECORDER_ENTRY_H
#define KEEL_RECORDER_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The registers of the arguments, in their order, and others.
struct entry_registers {
    uintptr_t arguments[6];
    uintptr_t others[2];
    uintptr_t result; // before the call
};

// Returns what the call returns. A function without a result returns registers->result, because it
// may leave that register unchanged, too.
typedef uintptr_t (*entry_function)(size_t index, const struct entry_registers* registers,
                                    const void* caller);

// Returns true if such a call changes no vector, except in the program's own function.
typedef bool (*entry_test)(size_t index, const struct entry_registers* registers);

// Returns the address to which a changed function jumps, with its index on the stack below the
// return address. `function` is then called. 0: there is none for this processor.
uintptr_t entry_prepare(entry_function function, entry_test is_simple);

#endif

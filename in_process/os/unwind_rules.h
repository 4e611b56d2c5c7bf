// How to find the caller's frame from a return address, by the unwind tables that C++ exceptions
// use (.eh_frame). x86-64 only.
#ifndef KEEL_OS_UNWIND_RULES_H
#define KEEL_OS_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

// How to compute the canonical frame address (CFA): the stack pointer before the call instruction
// pushed the return address. The return address is the word below the CFA.
enum frame_kind {
    FRAME_UNKNOWN, // the tables cannot be read, or say what a rule cannot express
    FRAME_LAST,    // the outermost frame
    FRAME_FROM_SP, // stack pointer + offset
    FRAME_FROM_BP, // frame pointer + offset
    FRAME_AT_BP,   // the word at frame pointer + offset (functions that realign the stack)
    FRAME_NO_TABLE // the tables have no entry, as for the code of a just-in-time compiler
};

// Where the caller's frame pointer is.
enum base_kind {
    BASE_SAME,   // not changed
    BASE_AT_CFA, // in the word at CFA + offset
    BASE_AT_BP,  // in the word at frame pointer + offset
};

struct unwind_rule {
    uint32_t frame_kind; // enum frame_kind
    uint32_t base_kind;  // enum base_kind
    int32_t frame_offset;
    int32_t base_offset;
};

// Looks up the C library's function that finds tables. Before it, there are no rules. Takes a lock
// of the dynamic loader.
void unwind_rules_prepare(void);

// False: not prepared, or the C library is one without _dl_find_object, and there are no rules.
bool unwind_rules_exist(void);

// For C libraries other than glibc: finds the tables by dl_iterate_phdr if there is no such
// function. Each rule is then found under the lock of the loader's list.
void unwind_rules_search(void);

// Returns the rule for the call that returns to `address`. Does not allocate and takes no lock, so
// it may run in signal handlers. Cost: a binary search, and the instructions of one function's
// table entry.
struct unwind_rule unwind_rule_find(uintptr_t address);

#endif

// Call stacks in reports: their addresses with files and offsets, and the commands that name the
// functions. Also used by the debug flavour.
#ifndef KEEL_ALLOCATOR_GUARDED_STACK_TEXT_H
#define KEEL_ALLOCATOR_GUARDED_STACK_TEXT_H

#include "base/format.h"
#include "os/stack.h"

struct stack {
    const uintptr_t* addresses; // return addresses, innermost first
    uint32_t depth;
};

// Appends a line for each address: the address, and the file and the offset in it. Leaves out the
// frames of Keel's shared library.
void stack_text(struct text* text, const struct os_maps* maps, struct stack stack);

#define COMMAND_ADDRESSES 96u // in all addr2line commands of a report
struct stack_commands {
    struct os_module modules[COMMAND_ADDRESSES];
    unsigned count;
};
void stack_commands_add(struct stack_commands* commands, const struct os_maps* maps,
                        struct stack stack);

// Appends one addr2line command for each file, with all addresses in it.
void stack_commands_text(struct text* text, const struct stack_commands* commands);

#endif

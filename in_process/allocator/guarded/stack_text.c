#include "allocator/guarded/stack_text.h"
#include <string.h>

static void text_path(struct text* text, const struct os_module* module) {
    for (size_t i = 0; i < module->path_length; i++) {
        const char letter[2] = {module->path[i], '\0'};
        text_string(text, letter);
    }
}

// For a shell: in quotes if the path has a character that may have a meaning there.
static void text_path_quoted(struct text* text, const struct os_module* module) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-";
    bool quoted = false;
    for (size_t i = 0; i < module->path_length; i++)
        quoted = quoted || strchr(plain, module->path[i]) == NULL;
    if (!quoted) {
        text_path(text, module);
        return;
    }
    text_string(text, "'");
    for (size_t i = 0; i < module->path_length; i++) {
        const char letter[2] = {module->path[i], '\0'};
        text_string(text, letter[0] == '\'' ? "'\\''" : letter);
    }
    text_string(text, "'");
}

static bool same_file(const struct os_module* a, const struct os_module* b) {
    return a->path_length == b->path_length && memcmp(a->path, b->path, a->path_length) == 0;
}

// True if the address is in a function of Keel's shared library, of which no program needs to see
// a frame. In a program that Keel is linked into, its functions are like those of the program.
static bool is_own(const struct os_maps* maps, const struct os_module* module) {
    static const char name[] = "libkeel";
    struct os_module own;
    if (!os_maps_find(maps, (uintptr_t)&stack_text, &own) || !same_file(&own, module)) return false;
    const char* slash = text_last(own.path, '/', own.path_length);
    const char* base = slash == NULL ? own.path : slash + 1;
    return own.path_length - (size_t)(base - own.path) >= sizeof name - 1 &&
           memcmp(base, name, sizeof name - 1) == 0;
}

// A return address is that of the next instruction, which may belong to another line.
static bool find_call(const struct os_maps* maps, uintptr_t address, struct os_module* module) {
    return os_maps_find(maps, address - 1, module);
}

static uint32_t first_frame(const struct os_maps* maps, struct stack stack) {
    struct os_module module;
    uint32_t first = 0;
    while (first + 1 < stack.depth && find_call(maps, stack.addresses[first], &module) &&
           is_own(maps, &module))
        first++;
    return first;
}

void stack_text(struct text* text, const struct os_maps* maps, struct stack stack) {
    if (stack.depth == 0) text_string(text, "    (no call stack)\n");
    for (uint32_t i = first_frame(maps, stack); i < stack.depth; i++) {
        struct os_module module;
        text_string(text, "    ");
        text_hex(text, stack.addresses[i]);
        if (find_call(maps, stack.addresses[i], &module)) {
            text_string(text, " ");
            text_path(text, &module);
            text_string(text, "+");
            text_hex(text, module.offset);
        }
        text_string(text, "\n");
    }
}

void stack_commands_add(struct stack_commands* commands, const struct os_maps* maps,
                        struct stack stack) {
    for (uint32_t i = first_frame(maps, stack); i < stack.depth; i++) {
        if (commands->count == COMMAND_ADDRESSES) return;
        struct os_module* module = &commands->modules[commands->count];
        if (find_call(maps, stack.addresses[i], module)) commands->count++;
    }
}

void stack_commands_text(struct text* text, const struct stack_commands* commands) {
    const struct os_module* modules = commands->modules;
    if (commands->count > 0) text_string(text, "  for functions and lines, run:\n");
    for (unsigned i = 0; i < commands->count; i++) {
        bool seen = false;
        for (unsigned j = 0; j < i; j++) seen = seen || same_file(&modules[j], &modules[i]);
        if (seen) continue;
        text_string(text, "    addr2line -aCfpie ");
        text_path_quoted(text, &modules[i]);
        for (unsigned j = i; j < commands->count; j++) {
            if (!same_file(&modules[j], &modules[i])) continue;
            text_string(text, " ");
            text_hex(text, modules[j].offset);
        }
        text_string(text, "\n");
    }
}

#include "allocator/debug/fault_report.h"
#include "allocator/debug/call_stack.h"
#include "os/process.h"
#include "os/thread.h"
#include <string.h>

#define REPORT_BYTES 16384u
#define COMMAND_ADDRESSES 96u // in all addr2line commands of a report

static char buffer[REPORT_BYTES];
static atomic_state reporting; // the number of the thread that reports

// Only the first fault is reported. Other threads wait for the end of the process.
static void begin(struct text* text) {
    uint32_t thread = record_thread();
    uint32_t expected = 0;
    static const char again[] = "keel: another fault while a fault was reported\n";
    if (!atomic_try_state(&reporting, &expected, thread)) {
        if (expected == thread) os_abort(again, sizeof again - 1);
        for (;;) os_wait(&reporting, expected, 1000000);
    }
    text_begin(text, buffer, sizeof buffer);
}

static void text_path(struct text* text, const struct os_module* module) {
    for (size_t i = 0; i < module->path_length; i++) {
        const char letter[2] = {module->path[i], '\0'};
        text_string(text, letter);
    }
}

// True if the address is in a function of Keel's shared library, of which no program needs to see
// a frame. In a program that Keel is linked into, its functions are like those of the program.
static bool is_own(const struct os_maps* maps, const struct os_module* module) {
    static const char name[] = "/libkeel";
    struct os_module own;
    if (!os_maps_find(maps, (uintptr_t)&report_stack, &own)) return false;
    if (own.path_length != module->path_length) return false;
    return memcmp(own.path, module->path, own.path_length) == 0 &&
           memmem(own.path, own.path_length, name, sizeof name - 1) != NULL;
}

// A return address is that of the next instruction, which may belong to another line.
static bool find_call(const struct os_maps* maps, uintptr_t address, struct os_module* module) {
    return os_maps_find(maps, address - 1, module);
}

static uint32_t first_frame(const struct os_maps* maps, const struct call_stack* stack) {
    struct os_module module;
    uint32_t first = 0;
    while (first + 1 < stack->depth && find_call(maps, stack->addresses[first], &module) &&
           is_own(maps, &module))
        first++;
    return first;
}

void report_stack(struct text* text, const struct os_maps* maps, uint32_t number) {
    const struct call_stack* stack = call_stack_of(number);
    if (stack == NULL) {
        text_string(text, "    (no call stack)\n");
        return;
    }
    for (uint32_t i = first_frame(maps, stack); i < stack->depth; i++) {
        struct os_module module;
        text_string(text, "    ");
        text_hex(text, stack->addresses[i]);
        if (find_call(maps, stack->addresses[i], &module)) {
            text_string(text, " ");
            text_path(text, &module);
            text_string(text, "+");
            text_hex(text, module.offset);
        }
        text_string(text, "\n");
    }
}

// --- Commands that name the functions ------------------------------------------------------------

struct commands {
    struct os_module modules[COMMAND_ADDRESSES];
    unsigned count;
};

static void add_calls(struct commands* commands, const struct os_maps* maps, uint32_t number) {
    const struct call_stack* stack = call_stack_of(number);
    if (stack == NULL) return;
    for (uint32_t i = first_frame(maps, stack); i < stack->depth; i++) {
        if (commands->count == COMMAND_ADDRESSES) return;
        struct os_module* module = &commands->modules[commands->count];
        if (find_call(maps, stack->addresses[i], module)) commands->count++;
    }
}

static bool same_file(const struct os_module* a, const struct os_module* b) {
    return a->path_length == b->path_length && memcmp(a->path, b->path, a->path_length) == 0;
}

// One command for each file, with all addresses in it.
static void print_commands(struct text* text, const struct commands* commands) {
    const struct os_module* modules = commands->modules;
    if (commands->count > 0) text_string(text, "  for functions and lines, run:\n");
    for (unsigned i = 0; i < commands->count; i++) {
        bool seen = false;
        for (unsigned j = 0; j < i; j++) seen = seen || same_file(&modules[j], &modules[i]);
        if (seen) continue;
        text_string(text, "    addr2line -aCfpie ");
        text_path(text, &modules[i]);
        for (unsigned j = i; j < commands->count; j++) {
            if (!same_file(&modules[j], &modules[i])) continue;
            text_string(text, " ");
            text_hex(text, modules[j].offset);
        }
        text_string(text, "\n");
    }
}

// --- Reports -------------------------------------------------------------------------------------

struct report {
    struct text text;
    struct os_maps maps;
    bool has_maps;
    struct commands commands;
};
static struct report report;

static void text_number(const char* name, uint64_t value) {
    text_string(&report.text, name);
    text_decimal(&report.text, value);
}

static void first_line(enum fault fault, const void* address, const struct record* record) {
    begin(&report.text);
    report.has_maps = os_maps_read(&report.maps);
    text_string(&report.text, "keel: ");
    text_string(&report.text, panic_sentence(fault));
    text_string(&report.text, ": ");
    text_hex(&report.text, (uintptr_t)address);
    if (record != NULL) text_number("; block bytes ", record->size);
}

static void offset_in_block(const char* name, const struct record* record, const void* address) {
    const char* block = record_block(record);
    text_string(&report.text, name);
    if ((const char*)address < block)
        text_number("-", (uint64_t)(block - (const char*)address));
    else
        text_number("", (uint64_t)((const char*)address - block));
}

static void stack_of(const char* name, uint32_t thread, uint32_t stack) {
    text_string(&report.text, "  ");
    text_string(&report.text, name);
    text_number(" by thread ", thread);
    text_string(&report.text, ":\n");
    if (!report.has_maps) return;
    report_stack(&report.text, &report.maps, stack);
    add_calls(&report.commands, &report.maps, stack);
}

static KEEL_NORETURN void last_lines(enum fault fault, const struct record* record, bool freed,
                                     uint32_t stack) {
    text_string(&report.text, "\n");
    if (record != NULL) {
        stack_of("allocated", record->allocated_thread, record->allocated_stack);
        if (freed) stack_of("freed", record->freed_thread, record->freed_stack);
    }
    stack_of("found", record_thread(), stack);
    print_commands(&report.text, &report.commands);
    panic_text(fault, buffer,
               report.text.length < sizeof buffer ? report.text.length : sizeof buffer - 1);
}

void fault_of_call(enum fault fault, const void* address, const struct record* record,
                   uint32_t stack) {
    first_line(fault, address, record);
    if (record != NULL && fault == FAULT_FREE_MISALIGNED)
        offset_in_block("; offset ", record, address);
    last_lines(fault, record, fault == FAULT_DOUBLE_FREE, stack);
}

void fault_of_size(const struct record* record, size_t size, uint32_t stack) {
    first_line(FAULT_FREE_SIZE, record_block(record), record);
    text_number("; size ", size);
    last_lines(FAULT_FREE_SIZE, record, false, stack);
}

void fault_of_write(const struct record* record, const char* byte, bool freed, uint32_t stack) {
    enum fault fault = freed                         ? FAULT_AFTER_FREE
                       : byte < record_block(record) ? FAULT_UNDERFLOW
                                                     : FAULT_OVERFLOW;
    first_line(fault, record_block(record), record);
    offset_in_block("; overwritten at offset ", record, byte);
    last_lines(fault, record, freed, stack);
}

#include "base/panic.h"
#include "base/format.h"

static panic_output output_at_panic;
static panic_output output_of_warnings;

void panic_set_output(panic_output output) {
    output_at_panic = output;
}

const char* panic_sentence(enum fault fault) {
    switch (fault) {
    case FAULT_FREE_NOT_ALLOCATED:
        return "free of a block that is not allocated (double or invalid free)";
    case FAULT_FREE_MISALIGNED:
        return "free of an address inside a block";
    case FAULT_FREE_FOREIGN:
        return "free of memory that is not Keel's (ignored)";
    case FAULT_CORRUPT:
    default:
        return "the heap's own data is corrupt";
    }
}

void warn_set_output(panic_output output) {
    output_of_warnings = output;
}

static void print_fault(panic_output output, enum fault fault, const void* about) {
    char buffer[160];
    struct text text;
    if (output == NULL) return;
    text_begin(&text, buffer, sizeof buffer);
    text_string(&text, "keel: ");
    text_string(&text, panic_sentence(fault));
    if (about != NULL) {
        text_string(&text, ": ");
        text_hex(&text, (uint64_t)(uintptr_t)about);
    }
    text_string(&text, "\n");
    output(fault, buffer, text.length);
}

void warn(enum fault fault, const void* about) {
    print_fault(output_of_warnings, fault, about);
}

void panic(enum fault fault, const void* about) {
    print_fault(output_at_panic, fault, about);
    __builtin_trap();
}

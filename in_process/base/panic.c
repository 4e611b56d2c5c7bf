#include "base/panic.h"
#include "base/format.h"

static panic_output output_at_panic;
static panic_output output_of_warnings;
static panic_output output_of_reports;
static uint32_t (*thread_at_panic)(void);

void panic_set_output(panic_output output) {
    output_at_panic = output;
}

void panic_set_thread(uint32_t (*thread)(void)) {
    thread_at_panic = thread;
}

const char* panic_sentence(enum fault fault) {
    switch (fault) {
    case FAULT_FREE_NOT_ALLOCATED:
        return "free of a block that is not allocated (double or invalid free)";
    case FAULT_FREE_MISALIGNED:
        return "free of an address inside a block";
    case FAULT_FREE_FOREIGN:
        return "free of memory that is not Keel's (ignored)";
    case FAULT_DOUBLE_FREE:
        return "double free";
    case FAULT_OVERFLOW:
        return "the end of a block is overwritten";
    case FAULT_UNDERFLOW:
        return "the start of a block is overwritten";
    case FAULT_AFTER_FREE:
        return "a free block is overwritten";
    case FAULT_LIVE_IN_LIST:
        return "a live block is in a list of free blocks";
    case FAULT_FREE_SIZE:
        return "free with a size that is not the block's";
    case FAULT_FREE_KIND:
        return "free by a function for blocks of another kind";
    case FAULT_COPY_END:
        return "a copy exceeds the end of a block";
    case FAULT_COPY_FREE:
        return "a copy from or to a block that is not allocated";
    case FAULT_CORRUPT:
    default:
        return "the heap's own data is corrupt";
    }
}

void warn_set_output(panic_output output) {
    output_of_warnings = output;
}

void report_set_output(panic_output output) {
    output_of_reports = output;
}

// Appends "; NAME VALUE", unless the value is 0.
static void detail(struct text* text, const char* name, uint64_t value) {
    if (value == 0) return;
    text_string(text, name);
    text_decimal(text, value);
}

static void print_fault(panic_output output, enum fault fault, const void* about,
                        struct fault_block block) {
    char buffer[200];
    struct text text;
    if (output == NULL) return;
    text_begin(&text, buffer, sizeof buffer);
    text_string(&text, "keel: ");
    text_string(&text, panic_sentence(fault));
    if (about != NULL) {
        text_string(&text, ": ");
        text_hex(&text, (uint64_t)(uintptr_t)about);
    }
    detail(&text, "; block bytes ", block.bytes);
    detail(&text, "; freed by thread ", block.freed_by);
    detail(&text, "; found in thread ", block.thread);
    text_string(&text, "\n");
    output(fault, buffer, text.length);
}

static const struct fault_block no_block;

void warn(enum fault fault, const void* about) {
    print_fault(output_of_warnings, fault, about, no_block);
}

void panic(enum fault fault, const void* about) {
    struct fault_block block = no_block;
    if (thread_at_panic != NULL) block.thread = thread_at_panic();
    panic_block(fault, about, block);
}

void report_block(enum fault fault, const void* about, struct fault_block block) {
    print_fault(output_of_reports, fault, about, block);
}

void report_text(enum fault fault, const char* text, size_t length) {
    if (output_of_reports != NULL) output_of_reports(fault, text, length);
}

void panic_text(enum fault fault, const char* text, size_t length) {
    if (output_at_panic != NULL) output_at_panic(fault, text, length);
    __builtin_trap();
}

void panic_block(enum fault fault, const void* about, struct fault_block block) {
    print_fault(output_at_panic, fault, about, block);
    __builtin_trap();
}

#if KEEL_CHECKED || KEEL_DEBUG
void panic_assert(const char* function, const char* condition) {
    char buffer[400];
    struct text text;
    text_begin(&text, buffer, sizeof buffer);
    text_string(&text, "keel: ");
    text_string(&text, panic_sentence(FAULT_CORRUPT));
    text_string(&text, ": ");
    text_string(&text, function);
    text_string(&text, ": ");
    text_string(&text, condition);
    text_string(&text, "\n");
    panic_text(FAULT_CORRUPT, buffer, text.length);
}
#endif

#include "allocator/debug/fault_report.h"
#include "allocator/debug/call_stack.h"
#include "allocator/guarded/stack_text.h"
#include "os/process.h"
#include "os/thread.h"

#define REPORT_BYTES 16384u
#define WAITS 5 // seconds

static char buffer[REPORT_BYTES];
static atomic_state reporting; // 1: a thread reports
static KEEL_TLS bool reports;  // this one, also in a child that it forks

// Only the first fault is reported. Other threads wait for the end of the process, but not for
// ever: a handler of the program may have left the report with longjmp.
static void begin(struct text* text) {
    static const char again[] = "keel: another fault while a fault was reported\n";
    uint32_t expected = 0;
    for (int i = 0; !atomic_try_state(&reporting, &expected, 1); i++, expected = 0) {
        if (reports || i == WAITS) os_abort(again, sizeof again - 1);
        os_wait(&reporting, 1, 1000000);
    }
    reports = true;
    text_begin(text, buffer, sizeof buffer);
}

// After a report after which the process goes on.
static void stop_reporting(void) {
    reports = false;
    atomic_set_release(&reporting, 0);
    os_wake(&reporting);
}

static struct stack stack_of_number(uint32_t number) {
    const struct call_stack* stack = call_stack_of(number);
    return stack == NULL ? (struct stack){NULL, 0} : (struct stack){stack->addresses, stack->depth};
}

bool fault_is_reported(void) {
    return atomic_get(&reporting) != 0;
}

void report_stack(struct text* text, const struct os_maps* maps, uint32_t number) {
    stack_text(text, maps, stack_of_number(number));
}

// --- Reports -------------------------------------------------------------------------------------

struct report {
    struct text text;
    struct os_maps maps;
    struct stack_commands commands;
};
static struct report report;

static void text_number(const char* name, uint64_t value) {
    text_string(&report.text, name);
    text_decimal(&report.text, value);
}

static void first_line(enum fault fault, const void* address, const struct record* record) {
    begin(&report.text);
    (void)os_maps_read(&report.maps); // without them, the addresses are printed
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
    report_stack(&report.text, &report.maps, stack);
    stack_commands_add(&report.commands, &report.maps, stack_of_number(stack));
}

static void write_stacks(const struct record* record, bool freed, uint32_t stack) {
    report.commands.count = 0;
    text_string(&report.text, "\n");
    if (record != NULL) {
        stack_of("allocated", record->allocated_thread, record->allocated_stack);
        if (freed) stack_of("freed", record->freed_thread, record->freed_stack);
    }
    stack_of("found", record_thread(), stack);
    stack_commands_text(&report.text, &report.commands);
}

static size_t report_length(void) {
    return report.text.length < sizeof buffer ? report.text.length : sizeof buffer - 1;
}

static KEEL_NORETURN void last_lines(enum fault fault, const struct record* record, bool freed,
                                     uint32_t stack) {
    write_stacks(record, freed, stack);
    panic_text(fault, buffer, report_length());
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

void report_of_size(const struct record* record, size_t size, uint32_t stack) {
    first_line(FAULT_FREE_SIZE, record_block(record), record);
    text_number("; size ", size);
    write_stacks(record, false, stack);
    report_text(FAULT_FREE_SIZE, buffer, report_length());
    stop_reporting();
}

static void kind_line(const struct record* record, enum block_kind kind) {
    static const char* const allocated[] = {
        [BLOCK_MALLOC] = "malloc",
        [BLOCK_NEW] = "operator new",
        [BLOCK_NEW_ARRAY] = "operator new[]",
        [BLOCK_NEW_ALIGNED] = "operator new(std::align_val_t)",
        [BLOCK_NEW_ARRAY_ALIGNED] = "operator new[](std::align_val_t)",
    };
    static const char* const freed[] = {
        [BLOCK_MALLOC] = "free or realloc",
        [BLOCK_NEW] = "operator delete",
        [BLOCK_NEW_ARRAY] = "operator delete[]",
        [BLOCK_NEW_ALIGNED] = "operator delete(std::align_val_t)",
        [BLOCK_NEW_ARRAY_ALIGNED] = "operator delete[](std::align_val_t)",
    };
    first_line(FAULT_FREE_KIND, record_block(record), record);
    text_string(&report.text, "; allocated by ");
    text_string(&report.text, allocated[record->kind]);
    text_string(&report.text, "; freed by ");
    text_string(&report.text, freed[kind]);
}

void fault_of_kind(const struct record* record, enum block_kind kind, uint32_t stack) {
    kind_line(record, kind);
    last_lines(FAULT_FREE_KIND, record, false, stack);
}

void report_of_kind(const struct record* record, enum block_kind kind, uint32_t stack) {
    static atomic_state reported;
    if (atomic_swap(&reported, 1) != 0) return;
    kind_line(record, kind);
    write_stacks(record, false, stack);
    report_text(FAULT_FREE_KIND, buffer, report_length());
    stop_reporting();
}

void fault_of_write(const struct record* record, const char* byte, bool freed, uint32_t stack) {
    enum fault fault = freed                         ? FAULT_AFTER_FREE
                       : byte < record_block(record) ? FAULT_UNDERFLOW
                                                     : FAULT_OVERFLOW;
    first_line(fault, record_block(record), record);
    offset_in_block("; overwritten at offset ", record, byte);
    last_lines(fault, record, freed, stack);
}

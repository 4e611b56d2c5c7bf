#include "allocator/guarded/report.h"
#include "allocator/guarded/stack_text.h"
#include "os/thread.h"

#define REPORT_BYTES 12288u
#define WAITS 5 // seconds

static char buffer[REPORT_BYTES];
enum { REPORT_NONE, REPORT_BEGUN, REPORT_WRITTEN };
static atomic_state reporting;
static KEEL_TLS bool reports; // this thread, also in a child that it forks
static guarded_output* write_report;

static struct report {
    struct text text;
    struct os_maps maps;
    bool has_maps;
    struct stack_commands commands;
} report;

void guarded_set_output(guarded_output* output) {
    write_report = output;
}

static void add(const char* string) {
    text_string(&report.text, string);
}

// The first line, up to the size of the block. False: another thread reports a fault.
static bool begin(const char* sentence, const struct guarded* block, const char* address) {
    uint32_t expected = REPORT_NONE;
    if (!atomic_try_state(&reporting, &expected, REPORT_BEGUN)) return false;
    reports = true;
    text_begin(&report.text, buffer, sizeof buffer);
    report.has_maps = os_maps_read(&report.maps);
    add("keel: ");
    add(sentence);
    add(": ");
    text_hex(&report.text, (uintptr_t)address);
    add("; block bytes ");
    text_decimal(&report.text, block->bytes);
    return true;
}

static void distance(const struct guarded* block, const char* address) {
    const char* end = block->start + block->bytes;
    add("; ");
    if (address < block->start) {
        text_decimal(&report.text, (uint64_t)(block->start - address));
        add(" bytes before its start");
    } else if (address >= end) {
        text_decimal(&report.text, (uint64_t)(address - end));
        add(" bytes behind its end");
    } else {
        text_decimal(&report.text, (uint64_t)(address - block->start));
        add(" bytes from its start");
    }
}

static void stack_of(const char* name, const struct guarded_call* call) {
    const struct stack stack = {call->walked.addresses, call->walked.depth};
    add("  ");
    add(name);
    add(" by thread ");
    text_decimal(&report.text, call->thread);
    add(":\n");
    if (!report.has_maps) return;
    stack_text(&report.text, &report.maps, stack);
    stack_commands_add(&report.commands, &report.maps, stack);
}

static void last_lines(const struct guarded* block) {
    static struct guarded_call found;
    uint32_t state = atomic_get(&block->state);
    add("\n");
    stack_of("allocated", &block->allocated);
    if (state == GUARDED_FREED || state == GUARDED_CLOSED) stack_of("freed", &block->freed);
    guarded_record_found(&found);
    stack_of("found", &found);
    stack_commands_text(&report.text, &report.commands);
}

void guarded_panic(enum fault fault, const struct guarded* block, const char* address) {
    bool inside = fault == FAULT_OVERFLOW || fault == FAULT_UNDERFLOW;
    if (!begin(panic_sentence(fault), block, inside ? block->start : address))
        panic(fault, address);
    if (inside || fault == FAULT_FREE_MISALIGNED) distance(block, address);
    last_lines(block);
    size_t length = report.text.length;
    panic_text(fault, buffer, length < sizeof buffer ? length : sizeof buffer - 1);
}

static const char* sentence_of(const struct guarded* block, const char* address,
                               enum os_access access) {
    static const char* const sentences[][3] = {
        {"access before the start of a block", "read before the start of a block",
         "write before the start of a block"},
        {"access behind the end of a block", "read behind the end of a block",
         "write behind the end of a block"},
        {"access to a freed block", "read of a freed block", "write to a freed block"},
    };
    unsigned row = address < block->start ? 0 : 1;
    if (atomic_get(&block->state) != GUARDED_LIVE) row = 2;
    return sentences[row][access];
}

// The caller's return may end the process, before another thread has written its report.
static void wait_for_other_report(void) {
    for (int i = 0; i < WAITS && !reports && atomic_get(&reporting) == REPORT_BEGUN; i++)
        os_wait(&reporting, REPORT_BEGUN, 1000000);
}

void guarded_report_access(const struct guarded* block, const char* address,
                           enum os_access access) {
    if (!begin(sentence_of(block, address, access), block, address)) {
        wait_for_other_report();
        return;
    }
    distance(block, address);
    last_lines(block);
    if (write_report != NULL) write_report(buffer);
    atomic_set(&reporting, REPORT_WRITTEN);
    os_wake(&reporting);
}

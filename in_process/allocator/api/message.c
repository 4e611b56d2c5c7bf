#include "allocator/api/message.h"
#include "allocator/space/partition.h"
#include "base/format.h"
#include "base/options.h"
#include "os/lock.h"
#include "os/process.h"
#include "os/thread.h"
#include <errno.h>

#define REPORT_WAITS 5 // seconds

// A function of the program and its argument. The argument is written first.
struct callback {
    atomic_word function;
    atomic_word argument;
};
static struct callback output, error, deferred, out_of_memory;
static atomic_bits errors_said;

// True while the thread runs a callback. An allocation in a callback calls no other callback, and
// is in partition 0.
static KEEL_TLS bool in_callback;

static unsigned callback_enter(void) {
    in_callback = true;
    return partition_enter(0);
}
static void callback_leave(unsigned partition) {
    in_callback = false;
    partition_leave(partition);
}
static KEEL_TLS unsigned long long heartbeats;

static void callback_set(struct callback* callback, uintptr_t function, void* argument) {
    atomic_set(&callback->function, 0);
    atomic_set_release(&callback->argument, (uintptr_t)argument);
    atomic_set_release(&callback->function, function);
}

static void* argument_of(struct callback* callback) {
    return (void*)atomic_get_acquire(&callback->argument);
}

void message_set_output(kl_output* function, void* argument) {
    callback_set(&output, (uintptr_t)function, argument);
}
void message_set_error(kl_error_handler* handler, void* argument) {
    callback_set(&error, (uintptr_t)handler, argument);
}
void message_set_deferred_free(kl_deferred_free* handler, void* argument) {
    callback_set(&deferred, (uintptr_t)handler, argument);
}
void message_set_out_of_memory(kl_out_of_memory* handler, void* argument) {
    callback_set(&out_of_memory, (uintptr_t)handler, argument);
}

static size_t text_length(const char* text) {
    size_t length = 0;
    while (text[length] != '\0') length++;
    return length;
}

void message_write(const char* text) {
    kl_output* function = (kl_output*)atomic_get_acquire(&output.function);
    if (function == NULL)
        os_write_error(text, text_length(text));
    else
        function(text, argument_of(&output));
}

static void call_error_handler(int code) {
    kl_error_handler* function = (kl_error_handler*)atomic_get_acquire(&error.function);
    if (function == NULL || in_callback) return;
    unsigned partition = callback_enter();
    function(code, argument_of(&error));
    callback_leave(partition);
}

static void say_error(int code, const char* text, bool shown) {
    int64_t most = option_get(OPTION_MAX_ERRORS);
    if (shown && (most < 0 || atomic_add(&errors_said, 1) < (uint64_t)most)) message_write(text);
    call_error_handler(code);
}

void message_error(int code, const char* text) {
    bool shown = option_get(OPTION_SHOW_ERRORS) != 0 || option_get(OPTION_VERBOSE) != 0;
    say_error(code, text, shown);
}

// The first thread that finds a fault reports it and ends the process. Others wait, but not for
// ever: a handler of the program may have left the report with longjmp.
static void wait_for_other_report(void) {
    static atomic_state reporting; // 1: a thread reports
    static KEEL_TLS bool reports;  // this one
    uint32_t expected = 0;
    if (!atomic_try_state(&reporting, &expected, 1) && !reports) {
        for (unsigned waits = 0; waits < REPORT_WAITS; waits++) os_wait(&reporting, 1, 1000000);
    }
    reports = true;
}

void message_panic(enum fault fault, const char* text, size_t length) {
    wait_for_other_report();
    os_lock_takes_over = true; // handlers of the program may use the heap
    call_error_handler(fault == FAULT_FREE_NOT_ALLOCATED ? EAGAIN
                       : fault == FAULT_FREE_MISALIGNED  ? EINVAL
                                                         : EFAULT);
    if (atomic_get_acquire(&output.function) == 0) os_abort(text, length);
    message_write(text);
    os_abort(text, 0);
}

void message_report(enum fault fault, const char* text, size_t length) {
    (void)fault;
    (void)length;
    say_error(EFAULT, text, true);
}

void message_warning(enum fault fault, const char* text, size_t length) {
    (void)fault;
    (void)length;
    message_error(EINVAL, text);
}

static void report_no_memory(size_t size) {
    char line[96];
    struct text text;
    text_begin(&text, line, sizeof line);
    text_string(&text, "keel: no memory for a block of ");
    text_decimal(&text, size);
    text_string(&text, " bytes\n");
    message_error(size > PTRDIFF_MAX ? EOVERFLOW : ENOMEM, line);
}

bool message_out_of_memory(size_t size) {
    kl_out_of_memory* function = (kl_out_of_memory*)atomic_get_acquire(&out_of_memory.function);
    if (function != NULL && !in_callback && size <= PTRDIFF_MAX) {
        unsigned partition = callback_enter();
        bool again = function(size, argument_of(&out_of_memory));
        callback_leave(partition);
        if (again) return true;
    }
    report_no_memory(size);
    return false;
}

void message_heartbeat(bool force) {
    kl_deferred_free* function = (kl_deferred_free*)atomic_get_acquire(&deferred.function);
    if (KEEL_LIKELY(function == NULL) || in_callback) return;
    unsigned partition = callback_enter();
    function(force, ++heartbeats, argument_of(&deferred));
    callback_leave(partition);
}

// Output and callbacks: texts, errors, and handlers of the program that free memory.
#ifndef KEEL_ALLOCATOR_API_MESSAGE_H
#define KEEL_ALLOCATOR_API_MESSAGE_H

#include "base/panic.h"
#include "keel/runtime.h"

// Writes to the registered output, or to stderr if there is none.
void message_write(const char* text);

// Reports an error to the error handler, and prints `text` if show_errors or verbose is set.
void message_error(int error, const char* text);

// For panic_set_output, report_set_output and warn_set_output: fatal errors, errors of the program
// after which it goes on, and harmless ones. The second kind is printed without show_errors, too.
void message_panic(enum fault fault, const char* text, size_t length);
void message_report(enum fault fault, const char* text, size_t length);
void message_warning(enum fault fault, const char* text, size_t length);

// Reports that there is no memory for `size` bytes. True: the program has freed memory, and the
// caller tries again.
bool message_out_of_memory(size_t size);

// Slow paths call this to let the program do its deferred frees.
void message_heartbeat(bool force);

void message_set_output(kl_output* output, void* argument);
void message_set_error(kl_error_handler* handler, void* argument);
void message_set_deferred_free(kl_deferred_free* handler, void* argument);
void message_set_out_of_memory(kl_out_of_memory* handler, void* argument);

#endif

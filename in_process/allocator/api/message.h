// What Keel says and whom it asks: texts, errors, memory that the program can free later or now.
#ifndef KEEL_ALLOCATOR_API_MESSAGE_H
#define KEEL_ALLOCATOR_API_MESSAGE_H

#include "base/panic.h"
#include "keel/runtime.h"

// To the registered output, else to stderr.
void message_write(const char* text);

// Something went wrong: tells the error handler, and says `text` where show_errors or verbose wants that.
void message_error(int error, const char* text);

// As panic_output: the end of the process, and what does no harm.
void message_panic(enum fault fault, const char* text, size_t length);
void message_warning(enum fault fault, const char* text, size_t length);

// No memory for so many bytes. True: the program has freed some, try again.
bool message_out_of_memory(size_t size);

// A call that takes time anyway: lets the program free what it has put off.
void message_heartbeat(bool force);

void message_set_output(kl_output* output, void* argument);
void message_set_error(kl_error_handler* handler, void* argument);
void message_set_deferred_free(kl_deferred_free* handler, void* argument);
void message_set_out_of_memory(kl_out_of_memory* handler, void* argument);

#endif

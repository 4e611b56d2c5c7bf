// Formats text without malloc, locale or stdio, into a buffer that the caller owns.
//
// No function writes beyond the buffer. `length` is the length of the whole text, as snprintf
// returns it. The text is always terminated when size > 0.
#ifndef KEEL_BASE_FORMAT_H
#define KEEL_BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char* buffer;  // may be NULL when size is 0
    size_t size;   // bytes in buffer
    size_t length; // bytes of the whole text; > size - 1: it was cut
};

// The last such character of a text without a terminator, or NULL.
const char* text_last(const char* text, char wanted, size_t length);

void text_begin(struct text* text, char* buffer, size_t size);
void text_string(struct text* text, const char* string);
void text_decimal(struct text* text, uint64_t value);
void text_hex(struct text* text, uint64_t value);
// Pads with spaces until the line that began at `line_start` has `column` characters.
void text_pad(struct text* text, size_t line_start, size_t column);
// "12.3 MiB": three digits at most, binary units.
void text_bytes(struct text* text, uint64_t bytes);

#endif

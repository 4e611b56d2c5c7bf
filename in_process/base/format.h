// Text without malloc, locale or stdio: a cursor over a buffer that the caller owns.
//
// A writer never writes beyond the buffer; `length` goes on counting, so that the caller learns how
// much would have been needed (as snprintf does). The text is always terminated when size > 0.
#ifndef KEEL_BASE_FORMAT_H
#define KEEL_BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char* buffer;  // may be NULL when size is 0
    size_t size;   // bytes in buffer
    size_t length; // bytes that the whole text has; > size - 1 means that it was cut
};

void text_begin(struct text* text, char* buffer, size_t size);
void text_string(struct text* text, const char* string);
void text_decimal(struct text* text, uint64_t value);
void text_hex(struct text* text, uint64_t value);
// Pads with spaces until the line that began at `line_start` has `column` characters.
void text_pad(struct text* text, size_t line_start, size_t column);
// "12.3 MiB": three digits at most, binary units.
void text_bytes(struct text* text, uint64_t bytes);

#endif

#include "base/format.h"

static void text_char(struct text* text, char c) {
    if (text->length + 1 < text->size) {
        text->buffer[text->length] = c;
        text->buffer[text->length + 1] = '\0';
    }
    text->length++;
}

const char* text_last(const char* text, char wanted, size_t length) {
    while (length-- > 0) {
        if (text[length] == wanted) return text + length;
    }
    return NULL;
}

void text_begin(struct text* text, char* buffer, size_t size) {
    text->buffer = buffer;
    text->size = size;
    text->length = 0;
    if (size > 0) buffer[0] = '\0';
}

void text_string(struct text* text, const char* string) {
    while (*string != '\0') text_char(text, *string++);
}

static void text_number(struct text* text, uint64_t value, unsigned base) {
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (count > 0) text_char(text, digits[--count]);
}

void text_decimal(struct text* text, uint64_t value) {
    text_number(text, value, 10);
}

void text_hex(struct text* text, uint64_t value) {
    text_string(text, "0x");
    text_number(text, value, 16);
}

void text_pad(struct text* text, size_t line_start, size_t column) {
    while (text->length < line_start + column) text_char(text, ' ');
}

void text_bytes(struct text* text, uint64_t bytes) {
    static const char* const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    unsigned unit = 0;
    uint64_t tenths = bytes * 10;
    while (tenths >= 10240 && unit < 4) {
        tenths /= 1024;
        unit++;
    }
    text_decimal(text, tenths / 10);
    if (unit > 0 && tenths < 1000) {
        text_char(text, '.');
        text_decimal(text, tenths % 10);
    }
    text_string(text, units[unit]);
}

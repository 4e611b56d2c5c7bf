// memcpy, memmove and memset of the allocator itself, in the flavours whose library exports checked
// functions of these names (checked_copy/checked_copy.c). Every source of such a library is
// compiled with `-include` of this file, so that its calls, also those that the compiler makes,
// lead here: they are not checked, and work before the library is relocated and in a signal
// handler.
#ifndef KEEL_COPY_PLAIN_COPY_H
#define KEEL_COPY_PLAIN_COPY_H

#include <string.h>

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) __asm__("plain_memcpy");
void* memmove(void* to, const void* from, size_t bytes) __asm__("plain_memmove");
void* memset(void* to, int value, size_t bytes) __asm__("plain_memset");

#endif

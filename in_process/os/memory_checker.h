// Informs valgrind's memcheck and AddressSanitizer, where the program runs under one of them, of
// the bytes of live blocks.
#ifndef KEEL_OS_MEMORY_CHECKER_H
#define KEEL_OS_MEMORY_CHECKER_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stddef.h>

// True once a checker was found. Without one, none of these functions need be called.
extern bool os_checker_runs;
void os_checker_prepare(void);

bool os_valgrind_runs(void);

// The block is now one that malloc returned. `zeroed`: its bytes are initialised.
void os_checker_block_begins(const void* block, size_t bytes, bool zeroed);
void os_checker_block_resized(const void* block, size_t before, size_t bytes);
// The block is freed: its bytes must not be accessed.
void os_checker_block_ends(const void* block, size_t bytes);

// No code of the program may access the bytes.
void os_checker_forbid(const void* start, size_t bytes);
// Anyone may, and they are initialised.
void os_checker_allow(const void* start, size_t bytes);

// Between these, the calling thread may access forbidden bytes. AddressSanitizer needs none of it,
// because it only checks code that is compiled for it.
void os_checker_pause(void);
void os_checker_resume(void);

#endif

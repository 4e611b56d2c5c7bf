// Blocks of the C runtimes of the process: each has functions that return memory of its own malloc,
// such as _getcwd(NULL, 0), which the program passes to free.
#ifndef KEEL_OS_WINDOWS_FOREIGN_H
#define KEEL_OS_WINDOWS_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

// The bytes of a block of the heap of the process or of that of msvcrt.dll. False: no such block
// begins there. Takes the locks of both. A debugger stops at a block of any other heap.
bool foreign_block_bytes(const void* block, size_t* bytes);
// Frees such a block. False: there is none.
bool foreign_block_free(void* block);

#endif

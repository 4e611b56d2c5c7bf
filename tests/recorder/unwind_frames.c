/* A library whose function has a frame of FRAME_BYTES: unwind.c closes one and opens another. */
#include <string.h>

__attribute__((visibility("default"))) void call_back(void (*function)(void));
void call_back(void (*function)(void)) {
    volatile char memory[FRAME_BYTES];
    memory[0] = 1;
    function();
    memory[FRAME_BYTES - 1] = memory[0];
}

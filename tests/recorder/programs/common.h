/* What the recorder's test programs share. Each kind of operation has a size of its own, so that
 * the expectations can tell it from what the C library allocates by itself. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Keeps the compiler from leaving out a malloc whose block nobody uses. */
static inline void* kept(void* block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

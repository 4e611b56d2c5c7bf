/* Shared by the recorder's test programs. Each kind of operation uses a different size, so that
 * the tests can distinguish it from allocations of the C library. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prevents the compiler from removing a malloc whose block is not used. */
static inline void* kept(void* block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

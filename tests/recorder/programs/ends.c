/* ends HOW: allocates 100 blocks of 1001 bytes on each of two threads, then ends the process:
 * exit, _exit, abort, or a crash. */
#include "common.h"

static pthread_barrier_t ready;

static void* work(void* unused) {
    for (int i = 0; i < 100; i++) kept(malloc(1001));
    pthread_barrier_wait(&ready);
    if (unused != NULL) return unused;
    for (;;) pause();
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    pthread_barrier_init(&ready, NULL, 3);
    pthread_t ids[2];
    for (int i = 0; i < 2; i++) pthread_create(&ids[i], NULL, work, NULL);
    pthread_barrier_wait(&ready);
    if (strcmp(arguments[1], "_exit") == 0) _exit(5);
    if (strcmp(arguments[1], "abort") == 0) abort();
    if (strcmp(arguments[1], "crash") == 0) *(volatile int*)8 = 1;
    return 5;
}

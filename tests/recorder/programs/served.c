/* served THREADS: allocates and frees on several threads until its input ends. Each round uses
 * sizes of its own, and blocks from before a recording are freed in it. Prints a line at the start.
 * Exits with 6 if a block's content has changed. */
#include "common.h"
#include <poll.h>

enum { KEPT = 200 };
static volatile int ends;

static void* work(void* number) {
    static __thread unsigned char* kept_blocks[KEPT];
    unsigned state = (unsigned)(size_t)number + 1;
    for (long round = 0; !ends; round++) {
        state = state * 1103515245u + 12345u;
        unsigned at = (state >> 16) % KEPT;
        if (kept_blocks[at] != NULL && kept_blocks[at][0] != (unsigned char)at) _exit(6);
        if (round % 3 == 0) {
            free(kept_blocks[at]);
            kept_blocks[at] = kept(malloc(1001 + at));
        } else {
            kept_blocks[at] = kept(realloc(kept_blocks[at], 1001 + at + (unsigned)round % 9));
        }
        kept_blocks[at][0] = (unsigned char)at;
        if (round % 64 == 0) poll(NULL, 0, 1);
    }
    for (int i = 0; i < KEPT; i++) free(kept_blocks[i]);
    return NULL;
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    pthread_t ids[64];
    int threads = atoi(arguments[1]);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void*)(size_t)i);
    char byte;
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) free(kept(malloc(4007)));
    ends = 1;
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    return 5;
}

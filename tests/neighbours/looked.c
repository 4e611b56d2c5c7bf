/* Prints the page faults of a program that fills large blocks and frees them, over and over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROUNDS = 40, LIVE = 6, MIB = 1024 * 1024 };

int main(void) {
    char* blocks[LIVE];
    struct rusage before, after;
    (void)getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 0; i < ROUNDS * LIVE; i++) {
        size_t bytes = (size_t)(2 + i * 7 % 11) * MIB;
        blocks[i % LIVE] = malloc(bytes);
        if (blocks[i % LIVE] == NULL) return 1;
        memset(blocks[i % LIVE], (int)i, bytes);
        if (i % LIVE + 1 < LIVE) continue;
        for (unsigned k = 0; k < LIVE; k++) free(blocks[k]);
    }
    (void)getrusage(RUSAGE_SELF, &after);
    printf("%ld\n", after.ru_minflt - before.ru_minflt);
    return 0;
}

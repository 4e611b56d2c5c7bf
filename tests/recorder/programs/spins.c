/* spins FILE: reads a byte, then allocates for ever without a system call, and counts its blocks in
 * the file. Prints a line at the start. */
#include "common.h"
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

int main(int count, char** arguments) {
    char byte;
    if (count != 2) return 2;
    int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0) return 3;
    volatile uint64_t* made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (made == MAP_FAILED) return 4;
    printf("ready\n");
    fflush(stdout);
    if (read(0, &byte, 1) < 0) return 5;
    for (;; ++*made) free(kept(malloc(1001)));
}

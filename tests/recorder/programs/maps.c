/* maps: maps 4 x 8 MiB itself and uses them, has blocks of 16 MiB in all, and waits until samples
 * of its memory have been taken. It has an allocator of its own beside malloc. */
#include "common.h"
#include <string.h>
#include <sys/mman.h>

enum { MAPPED = 8 << 20, BLOCK = 1 << 20, BLOCKS = 16 };

void* mi_malloc(size_t size);
void* mi_malloc(size_t size) {
    static char memory[4096];
    return size < sizeof memory ? memory : NULL;
}

int main(void) {
    static char* blocks[BLOCKS];
    for (int i = 0; i < 4; i++) {
        char* memory =
            mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 1;
        memset(memory, 1, MAPPED);
    }
    /* What is only reserved does not count. */
    mmap(NULL, MAPPED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = kept(malloc(BLOCK));
        memset(blocks[i], 1, BLOCK);
    }
    mi_malloc(1);
    usleep(300000);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return 0;
}

/* endless COUNTER: allocates until a signal ends it, and counts each finished call in the mapped
 * file. */
#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(int count, char** arguments) {
    int file = count == 2 ? open(arguments[1], O_RDWR) : -1;
    _Atomic uint64_t* counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counter == MAP_FAILED) return 2;
    atomic_store(counter + 1, (uint64_t)getpid());
    for (;;) {
        void* block = kept(malloc(1001));
        atomic_fetch_add(counter, 1);
        free(block);
    }
}

// evicts BYTES EVENTS: reads BYTES of memory before each of its mallocs and frees.
#include <stdlib.h>
#include <string.h>

static void read_all(const volatile char* memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) (void)memory[at];
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    size_t bytes = strtoul(arguments[1], NULL, 10);
    char* memory = malloc(bytes + 1);
    if (memory == NULL) return 1;
    memset(memory, 1, bytes + 1);
    for (long events = strtol(arguments[2], NULL, 10); events > 0; events -= 2) {
        read_all(memory, bytes);
        void* volatile block = malloc(64);
        read_all(memory, bytes);
        free(block);
    }
    free(memory);
    return 0;
}

/* Exports its own malloc (linked with -rdynamic): the recorder must refuse it. */
#include <stddef.h>
#include <stdlib.h>

static char heap[1 << 20];
static size_t used;

__attribute__((visibility("default"))) void* malloc(size_t size) {
    void* block = &heap[used];
    used += (size + 15) & ~(size_t)15;
    return block;
}
__attribute__((visibility("default"))) void free(void* block) {
    (void)block;
}

int main(void) {
    return malloc(10) == NULL;
}

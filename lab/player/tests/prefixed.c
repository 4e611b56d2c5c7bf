/* The C library's allocator under names of its own, for the player's tests. */
#include <malloc.h>
#include <stdlib.h>

void* own_malloc(size_t size) {
    return malloc(size);
}
void own_free(void* block) {
    free(block);
}
void* own_calloc(size_t count, size_t size) {
    return calloc(count, size);
}
void* own_realloc(void* block, size_t size) {
    return realloc(block, size);
}
void* own_memalign(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

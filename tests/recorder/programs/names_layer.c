// A library with jemalloc's names with a prefix, which calls malloc by name (-DLIBRARY), and a
// program that uses it. Each call is recorded once.
// expect: +1001 +1002 -1001 +1003 -1002 -1003
// kinds: calloc=1
#include <stdlib.h>

void* je_mallocx(size_t size, int flags);
void* je_malloc(size_t size);
void* je_calloc(size_t count, size_t size);
void* je_realloc(void* block, size_t size);
void je_free(void* block);

#ifdef LIBRARY
void* je_mallocx(size_t size, int flags) {
    (void)flags;
    return malloc(size);
}
void* je_malloc(size_t size) {
    return malloc(size);
}
void* je_calloc(size_t count, size_t size) {
    return calloc(count, size);
}
void* je_realloc(void* block, size_t size) {
    return realloc(block, size);
}
void je_free(void* block) {
    free(block);
}
#else
int main(void) {
    void* first = je_mallocx(1001, 0);
    void* second = je_calloc(2, 501);
    void* third = je_realloc(first, 1003);
    je_free(second);
    je_free(third);
    return 0;
}
#endif

// A library whose malloc and free call mimalloc's names (-DLIBRARY), which another library defines
// (-DNAMES), and a program that uses it. Each call is recorded once.
// expect: +1001 -1001 +1002 -1002
// kinds: malloc=2 free=2
#include <stddef.h>

void* mi_malloc(size_t size);
void mi_free(void* block);

#if defined(NAMES)
static char memory[1 << 20];
static size_t taken;
void* mi_malloc(size_t size) {
    size_t at = __atomic_fetch_add(&taken, (size + 15) & ~(size_t)15, __ATOMIC_RELAXED);
    return at + size <= sizeof memory ? memory + at : NULL;
}
void mi_free(void* block) {
    (void)block;
}
#elif defined(LIBRARY)
void* malloc(size_t size) {
    return mi_malloc(size);
}
void free(void* block) {
    mi_free(block);
}
#else
#include <stdlib.h>
int main(void) {
    free(malloc(1001));
    free(malloc(1002));
    return 0;
}
#endif

// A malloc in the program that passes its calls on to the next one, which it looks up at the first
// call, as programs do that count their allocations. With -DJUMP, a first call of malloc ends by a
// longjmp. Each makes 1000 calls of malloc with 1001 bytes, and frees the blocks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>

static void* (*next_malloc)(size_t);
static void (*next_free)(void*);
static jmp_buf back;
static int jumps;

__attribute__((noipa)) void* malloc(size_t size) {
    if (next_malloc == NULL) *(void**)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    if (jumps) longjmp(back, 1);
    return next_malloc(size);
}

__attribute__((noipa)) void free(void* block) {
    if (next_free == NULL) *(void**)&next_free = dlsym(RTLD_NEXT, "free");
    next_free(block);
}

int main(void) {
#ifdef JUMP
    jumps = setjmp(back) == 0;
    if (jumps) free(malloc(1002));
#endif
    for (int i = 0; i < 1000; i++) {
        char* volatile block = malloc(1001);
        free(block);
    }
    return 0;
}

// A library that replaces dl_iterate_phdr, which Keel and the recorder call when they start and
// inside of their functions, and that allocates there by every function of the malloc family.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>

typedef int visit_function(struct dl_phdr_info* object, size_t bytes, void* data);

extern void* operator_new(size_t size) __asm__("_Znwm") __attribute__((weak));
extern void operator_delete(void* block) __asm__("_ZdlPv") __attribute__((weak));

enum { MOST = 11 };

static void allocate(void* blocks[MOST]) {
    blocks[0] = malloc(100);
    blocks[1] = calloc(3, 50);
    blocks[2] = realloc(malloc(20), 3000);
    blocks[3] = reallocarray(NULL, 10, 20);
    blocks[4] = memalign(64, 100);
    if (posix_memalign(&blocks[5], 4096, 5000) != 0) abort();
    blocks[6] = aligned_alloc(256, 512);
    blocks[7] = valloc(100);
    blocks[8] = pvalloc(100);
    blocks[9] = malloc(5 << 20);
    blocks[10] = operator_new != NULL ? operator_new(40) : NULL;
}

int dl_iterate_phdr(visit_function* visit, void* data) {
    static int (*next)(visit_function * visit, void* data);
    void* blocks[MOST];
    allocate(blocks);
    for (int i = 0; i < MOST - 1; i++) *(volatile char*)blocks[i] = 1;
    if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    int result = next(visit, data);
    for (int i = 0; i < MOST - 1; i++) free(blocks[i]);
    if (operator_delete != NULL) operator_delete(blocks[MOST - 1]);
    return result;
}

// A program that looks whether it runs with one of these allocators. It must find none.
// expect: +1001 -1001
#include <dlfcn.h>
#include <stdlib.h>

void* mallocx(size_t size, int flags) __attribute__((weak));
void* je_malloc(size_t size) __attribute__((weak));
void* mi_malloc(size_t size) __attribute__((weak));
void* tc_malloc(size_t size) __attribute__((weak));
void* kl_malloc(size_t size) __attribute__((weak));

int main(void) {
    if (mallocx != NULL || je_malloc != NULL || mi_malloc != NULL) return 1;
    if (tc_malloc != NULL || kl_malloc != NULL) return 2;
    if (dlsym(RTLD_DEFAULT, "mallocx") != NULL) return 3;
    free(malloc(1001));
    return 0;
}

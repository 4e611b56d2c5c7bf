// jemalloc's own functions.
// expect: +1001 +1002 -1002 +1003 -1001 +1004 -1004 -1003 +1005 -1005 +1006 -1006
// kinds: aligned=1 free_aligned_sized=1
#include <stdlib.h>

void* mallocx(size_t size, int flags);
void* rallocx(void* block, size_t size, int flags);
size_t xallocx(void* block, size_t size, size_t extra, int flags);
void dallocx(void* block, int flags);
void sdallocx(void* block, size_t size, int flags);

enum { ALIGN_256 = 8, ZERO = 64 };

int main(void) {
    char* a = mallocx(1001, 0);
    char* b = mallocx(1002, ALIGN_256 | ZERO);
    for (int i = 0; i < 1002; i++)
        if (b[i] != 0 || (size_t)b % 256 != 0) return 1;
    b = rallocx(b, 1003, ALIGN_256);
    if (xallocx(a, 1004, 0, 0) < 1004) return 2;
    if (xallocx(a, 1900, 0, 0) >= 1900) return 3;
    dallocx(a, 0);
    sdallocx(b, 1003, ALIGN_256);
    // The family of malloc is the same allocator.
    free(rallocx(malloc(1005), 1006, 0));
    return 0;
}

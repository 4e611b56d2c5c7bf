/* rare: calls entry points that few programs use, ten times each. Those of C23 are the
 * recorder's, because the C library may not have them. */
#include "common.h"
#include <malloc.h>

extern void free_sized(void* block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void* block, size_t align, size_t size) __attribute__((weak));
extern void cfree(void* block) __attribute__((weak));

int main(void) {
    if (free_sized == NULL || free_aligned_sized == NULL || cfree == NULL) return 3;
    for (int i = 0; i < 10; i++) {
        free_sized(kept(malloc(1001)), 1001);
        free_aligned_sized(kept(malloc(1003)), 16, 1003);
        cfree(kept(malloc(1005)));
        free(kept(valloc(1007)));
    }
    free_sized(NULL, 0);
    return 0;
}

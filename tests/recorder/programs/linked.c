/* linked: calls 40 times each function that bump.c, with which it is linked, implements by
 * calling another one by name. */
#include "common.h"

int main(void) {
    for (int i = 0; i < 40; i++) {
        free(kept(malloc(1001)));
        free(kept(calloc(7, 149))); /* 1043 */
        void* block = NULL;
        if (posix_memalign(&block, 64, 1009) != 0) return 3;
        free(block);
        free(kept(aligned_alloc(128, 1152)));
        block = kept(malloc(1005));
        free(kept(realloc(block, 1007)));
    }
    return 0;
}

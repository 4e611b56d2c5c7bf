/* frames: 60 frames with 3 blocks of 1001 bytes each, presented by glXSwapBuffers of the library
 * picture.c. */
#include "common.h"

extern void glXSwapBuffers(void* display, unsigned long drawable);

int main(void) {
    for (int frame = 0; frame < 60; frame++) {
        for (int i = 0; i < 3; i++) free(kept(malloc(1001)));
        glXSwapBuffers(NULL, 42);
    }
    return 0;
}

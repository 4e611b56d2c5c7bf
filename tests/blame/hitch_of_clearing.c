/* culprit: clear_world by over
 * One frame frees everything that many frames have allocated. */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMES = 400, PER_FRAME = 1000 };
static void* objects[FRAMES * PER_FRAME];
static int count;

__attribute__((noinline)) static void spawn(void) {
    for (int i = 0; i < PER_FRAME; i++) objects[count++] = malloc(32);
}

__attribute__((noinline)) static void clear_world(void) {
    while (count > 0) free(objects[--count]);
}

int main(void) {
    for (int frame = 0; frame < FRAMES; frame++) {
        if (frame < FRAMES - 1) spawn();
        if (frame == FRAMES - 1) clear_world();
        end_frame();
    }
    return 0;
}

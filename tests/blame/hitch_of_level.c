/* culprit: load_level by over
 * One frame requests a large block, whose memory the system has to provide. */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char* load_level(void) {
    char* level = malloc((size_t)48 << 20);
    memset(level, 1, (size_t)48 << 20);
    return level;
}

__attribute__((noinline)) static void draw(int frame) {
    for (int i = 0; i < 100; i++) {
        char* vertices = malloc(500);
        memset(vertices, frame, 500);
        free(vertices);
    }
}

int main(void) {
    char* level = NULL;
    for (int frame = 0; frame < 100; frame++) {
        draw(frame);
        if (frame == 60) level = load_level();
        end_frame();
    }
    free(level);
    return 0;
}

/* culprit: grow_terrain by slow
 * An array of many MiB grows, and moves, in a program without frames. */
#include <stdlib.h>
#include <string.h>

static float* terrain;
static size_t side = 1000;

static void grow_terrain(void) {
    side += 200;
    terrain = realloc(terrain, side * side * sizeof *terrain);
    memset(terrain, 0, side * side * sizeof *terrain);
}

__attribute__((noinline)) static void walk(void) {
    for (int i = 0; i < 500; i++) {
        void* step = malloc(64);
        memset(step, 0, 64);
        free(step);
    }
}

int main(void) {
    for (int i = 0; i < 12; i++) {
        walk();
        grow_terrain();
    }
    free(terrain);
    return 0;
}

/* culprit: load_texture by kept
 * The program allocates through a function that checks the result. */
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) void* xmalloc(size_t size);
__attribute__((noinline)) void* xmalloc(size_t size) {
    void* block = malloc(size);
    if (block == NULL) abort();
    return block;
}

static char* textures[64];

__attribute__((noinline)) static void load_texture(int index) {
    textures[index % 64] = xmalloc(4096); /* the old one is lost */
    memset(textures[index % 64], 1, 4096);
}

__attribute__((noinline)) static void load_sound(void) {
    char* sound = xmalloc(100000);
    memset(sound, 1, 100000);
    free(sound);
}

int main(void) {
    for (int i = 0; i < 1000; i++) {
        load_texture(i);
        load_sound();
    }
    return textures[0][0] - textures[63][4095];
}

// integrations/memory/keel_sdl.h with the library of SDL 2.
#include "check.h"
#if HAVE_LIBRARY
#define SDL_MAIN_HANDLED
#include "live.h"
#include <SDL.h>
//
#include "keel_sdl.h"

TEST(all_blocks_are_in_the_heap) {
    kl_heap_t* heap = kl_heap_new();
    CHECK(keel_sdl_install(heap));
    SDL_setenv("SDL_VIDEODRIVER", "dummy", 1);
    SDL_setenv("SDL_AUDIODRIVER", "dummy", 1);
    CHECK_EQUAL(SDL_Init(SDL_INIT_VIDEO | SDL_INIT_AUDIO), 0);
    SDL_Surface* surface = SDL_CreateRGBSurface(0, 640, 480, 32, 0, 0, 0, 0);
    CHECK(surface != NULL);
    SDL_FillRect(surface, NULL, 0x336699);
    // SDL aligns the pixels itself, within a block of the heap.
    CHECK(kl_heap_owns(heap, surface) && live_blocks(heap) > 10);
    size_t live = live_blocks(heap);
    void* block = SDL_malloc(100);
    block = SDL_realloc(block, 100000);
    CHECK(kl_heap_contains(heap, block));
    CHECK_EQUAL(live_blocks(heap), live + 1);
    SDL_free(block);
    char* zeros = SDL_calloc(10, 10);
    for (int i = 0; i < 100; i++) CHECK_EQUAL(zeros[i], 0);
    SDL_free(zeros);
    SDL_FreeSurface(surface);
    CHECK_EQUAL((long long)live_blocks(heap), SDL_GetNumAllocations());
    SDL_Quit();
}

TEST(without_a_heap_the_blocks_are_of_kl_malloc) {
    CHECK(keel_sdl_install(NULL));
    void* block = SDL_malloc(100);
    CHECK(kl_heap_contains(kl_heap_backing(), block));
    SDL_free(block);
}

TEST(it_is_refused_after_sdl_has_allocated) {
    void* block = SDL_malloc(100);
    CHECK(!keel_sdl_install(NULL));
    SDL_free(block);
}
#else
TEST(sdl) {
    SKIP("SDL.h is not installed (Debian: libsdl2-dev)");
}
#endif

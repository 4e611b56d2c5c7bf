/* The part of SDL3/SDL.h that integrations/memory/keel_sdl.h uses: a stand-in for tests, with SDL's
 * names and signatures, and the functions that the program passes to it. */
#ifndef STAND_IN_SDL3_H
#define STAND_IN_SDL3_H

#include <stdbool.h>
#include <stddef.h>

#define SDL_MAJOR_VERSION 3
#define SDLCALL

typedef void*(SDLCALL* SDL_malloc_func)(size_t size);
typedef void*(SDLCALL* SDL_calloc_func)(size_t nmemb, size_t size);
typedef void*(SDLCALL* SDL_realloc_func)(void* mem, size_t size);
typedef void(SDLCALL* SDL_free_func)(void* mem);

static struct {
    SDL_malloc_func malloc;
    SDL_calloc_func calloc;
    SDL_realloc_func realloc;
    SDL_free_func free;
    int live;
} stand_in_sdl;

static inline int SDL_GetNumAllocations(void) {
    return stand_in_sdl.live;
}
static inline bool SDL_SetMemoryFunctions(SDL_malloc_func malloc_func, SDL_calloc_func calloc_func,
                                          SDL_realloc_func realloc_func, SDL_free_func free_func) {
    stand_in_sdl.malloc = malloc_func;
    stand_in_sdl.calloc = calloc_func;
    stand_in_sdl.realloc = realloc_func;
    stand_in_sdl.free = free_func;
    return true;
}

#endif

/* keel_sdl.h: SDL 2 and SDL 3 allocate from Keel. Include SDL's header first, and this one in one
 * source file. Call the function before any other function of SDL:
 *
 *     #include <SDL.h>
 *     #include "keel_sdl.h"
 *
 *     if (!keel_sdl_install(NULL)) ...      // or a heap, see keel_hooks.h
 *     SDL_Init(SDL_INIT_VIDEO);
 *
 * SDL has no argument for the heap, so all of SDL uses one heap. The heap must live until the
 * program ends, because SDL_Quit does not free all blocks. */
#ifndef KEEL_SDL_H
#define KEEL_SDL_H

#include "keel_hooks.h"

#ifndef SDL_MAJOR_VERSION
#error "include SDL.h or SDL3/SDL.h before keel_sdl.h"
#endif

static kl_heap_t* keel_sdl_heap;

KEEL_HOOK void* SDLCALL keel_sdl_malloc(size_t size) {
    KEEL_HOOK_RETURN(keel_hook_malloc(keel_sdl_heap, size));
}
KEEL_HOOK void* SDLCALL keel_sdl_calloc(size_t count, size_t size) {
    KEEL_HOOK_RETURN(keel_hook_calloc(keel_sdl_heap, count, size));
}
KEEL_HOOK void* SDLCALL keel_sdl_realloc(void* block, size_t size) {
    KEEL_HOOK_RETURN(keel_hook_realloc(keel_sdl_heap, block, size));
}
KEEL_HOOK void SDLCALL keel_sdl_free(void* block) {
    kl_free(block);
    KEEL_HOOK_STAYS;
}

/* Returns false, and changes nothing, if SDL has allocated already. */
static inline bool keel_sdl_install(kl_heap_t* heap) {
    if (SDL_GetNumAllocations() > 0) return false;
    keel_sdl_heap = heap;
#if SDL_MAJOR_VERSION >= 3
    return SDL_SetMemoryFunctions(keel_sdl_malloc, keel_sdl_calloc, keel_sdl_realloc,
                                  keel_sdl_free);
#else
    return SDL_SetMemoryFunctions(keel_sdl_malloc, keel_sdl_calloc, keel_sdl_realloc,
                                  keel_sdl_free) == 0;
#endif
}

#endif

/* Where a program shows a picture: each call ends a frame. The outermost counts, since one may call
 * another. */
#include <stdint.h>

#include "next.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

static const char* const graphics_libraries[] = {
    "libGL.so.1",   "libGLX.so.0",    "libEGL.so.1", "libSDL2-2.0.so.0",
    "libSDL3.so.0", "libvulkan.so.1", NULL};

static _Thread_local uint32_t presenting;

static void* present_begin(void** function, const char* name) {
    void* found = __atomic_load_n(function, __ATOMIC_ACQUIRE);
    if (found == NULL) {
        found = next_find(name, graphics_libraries);
        __atomic_store_n(function, found, __ATOMIC_RELEASE);
    }
    if (presenting++ == 0 && recording()) record(KL_RING_FRAME, ticks(), NULL, 0, 0);
    return found;
}

/* The result is whatever the function returns in a register, or nothing: passed on as it is. */
#define PRESENT(symbol, parameters, arguments)                                                     \
    EXPORT uintptr_t symbol parameters;                                                            \
    uintptr_t symbol parameters {                                                                  \
        static void* function;                                                                     \
        typedef uintptr_t(*next_function) parameters;                                              \
        void* found = present_begin(&function, #symbol);                                           \
        uintptr_t result = found != NULL ? (*(next_function*)&found)arguments : 0;                 \
        presenting--;                                                                              \
        return result;                                                                             \
    }

PRESENT(glXSwapBuffers, (void* display, unsigned long drawable), (display, drawable))
PRESENT(eglSwapBuffers, (void* display, void* surface), (display, surface))
PRESENT(SDL_GL_SwapWindow, (void* window), (window))
PRESENT(SDL_RenderPresent, (void* renderer), (renderer))
PRESENT(vkQueuePresentKHR, (void* queue, const void* information), (queue, information))

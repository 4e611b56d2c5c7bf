/* Where a program shows a picture: each call ends a frame. The outermost counts, since one may call
 * another.
 *
 * A program comes to these functions by linking, or by asking a library for their addresses
 * (glXGetProcAddress and the like): then it is given ours, and ours goes on to the address that the
 * library had for it. What a program finds by dlsym in a library that it opened itself is not seen. */
#include <stdint.h>
#include <string.h>

#include "next.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

static const char* const graphics_libraries[] = {
    "libGL.so.1",   "libGLX.so.0",  "libEGL.so.1",    "libSDL2-2.0.so.0",
    "libSDL3.so.0", "libglfw.so.3", "libvulkan.so.1", NULL};

/* The address as a function that takes what the caller passes on, whatever that is. */
typedef uintptr_t (*any_function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static _Thread_local uint32_t presenting;

static any_function function_find(void** function, const char* name) {
    void* found = __atomic_load_n(function, __ATOMIC_ACQUIRE);
    if (found == NULL) {
        found = next_find(name, graphics_libraries);
        __atomic_store_n(function, found, __ATOMIC_RELEASE);
    }
    return *(any_function*)&found;
}

/* The result is whatever the function returns in a register, or nothing: passed on as it is. */
static uintptr_t present(void** function, const char* name, uintptr_t a, uintptr_t b, uintptr_t c,
                         uintptr_t d) {
    any_function found = function_find(function, name);
    if (presenting++ == 0 && recording()) record(KL_RING_FRAME, ticks(), NULL, 0, 0);
    uintptr_t result = found != NULL ? found(a, b, c, d) : 0;
    presenting--;
    return result;
}

#define PRESENTERS(each)                                                                           \
    each(glXSwapBuffers) each(eglSwapBuffers) each(eglSwapBuffersWithDamageKHR)                    \
        each(eglSwapBuffersWithDamageEXT) each(SDL_GL_SwapWindow) each(SDL_RenderPresent)          \
            each(glfwSwapBuffers) each(vkQueuePresentKHR)

/* Up to four words are passed on: none of them takes more. */
#define PRESENT(symbol)                                                                            \
    static void* next_##symbol;                                                                    \
    EXPORT uintptr_t symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);                   \
    uintptr_t symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {                         \
        return present(&next_##symbol, #symbol, a, b, c, d);                                       \
    }
PRESENTERS(PRESENT)

struct presenter {
    const char* name;
    any_function ours;
    void** next;
};
#define PRESENTER(symbol) {#symbol, symbol, &next_##symbol},
static const struct presenter presenters[] = {PRESENTERS(PRESENTER)};

/* What a program gets that asks for `name`, where the library has `address`. */
static uintptr_t address_given(const char* name, uintptr_t address) {
    if (name == NULL || address == 0) return address;
    for (size_t i = 0; i < sizeof presenters / sizeof *presenters; i++) {
        if (strcmp(name, presenters[i].name) != 0) continue;
        /* A library may resolve the name to us by itself. */
        if (address != (uintptr_t)presenters[i].ours)
            __atomic_store_n(presenters[i].next, (void*)address, __ATOMIC_RELEASE);
        return (uintptr_t)presenters[i].ours;
    }
    return address;
}

/* Functions that give addresses; `name` is which of their two arguments is the name. */
#define ASK(symbol, name)                                                                          \
    EXPORT uintptr_t symbol(uintptr_t a, uintptr_t b);                                             \
    uintptr_t symbol(uintptr_t a, uintptr_t b) {                                                   \
        static void* function;                                                                     \
        any_function found = function_find(&function, #symbol);                                    \
        return found != NULL ? address_given((const char*)(name), found(a, b, 0, 0)) : 0;          \
    }

ASK(glXGetProcAddress, a)
ASK(glXGetProcAddressARB, a)
ASK(eglGetProcAddress, a)
ASK(SDL_GL_GetProcAddress, a)
ASK(glfwGetProcAddress, a)
ASK(vkGetInstanceProcAddr, b)
ASK(vkGetDeviceProcAddr, b)

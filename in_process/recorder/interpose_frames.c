// The functions by which a program shows an image. Each call ends a frame. These functions may call
// each other, so only the outermost call counts.
//
// A program gets these functions when it is linked, or requests their addresses from a library
// (glXGetProcAddress and similar functions). In both cases it gets the recorder's function. For a
// requested address, this function calls the address that the library returned. If the program
// opens a library itself and calls dlsym on it, the address is not intercepted.
#include "base/atomic.h"
#include "base/attributes.h"
#include "next.h"
#include "thread.h"
#include <stdint.h>
#include <string.h>
static const char* const graphics_libraries[] = {
    "libGL.so.1",   "libGLX.so.0",  "libEGL.so.1",    "libSDL2-2.0.so.0",
    "libSDL3.so.0", "libglfw.so.3", "libvulkan.so.1", NULL};

// A function of up to four words.
typedef uintptr_t (*any_function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static _Thread_local uint32_t presenting;

static any_function function_find(atomic_word* function, const char* name) {
    uintptr_t found = atomic_get_acquire(function);
    if (found == 0) {
        found = (uintptr_t)next_find(name, graphics_libraries);
        atomic_set_release(function, found);
    }
    return (any_function)found;
}

// Returns the content of the result register, even if the function has no result.
static uintptr_t present(atomic_word* function, const char* name, uintptr_t a, uintptr_t b,
                         uintptr_t c, uintptr_t d) {
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

// Passes four words, because none of these functions has more arguments.
#define PRESENT(symbol)                                                                            \
    static atomic_word next_##symbol;                                                              \
    KEEL_EXPORT uintptr_t symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);              \
    uintptr_t symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {                         \
        return present(&next_##symbol, #symbol, a, b, c, d);                                       \
    }
PRESENTERS(PRESENT)

struct presenter {
    const char* name;
    any_function ours;
    atomic_word* next;
};
#define PRESENTER(symbol) {#symbol, symbol, &next_##symbol},
static const struct presenter presenters[] = {PRESENTERS(PRESENTER)};

// Returns the address that the program gets for `name` if the library returned `address`.
static uintptr_t address_for(const char* name, uintptr_t address) {
    if (name == NULL || address == 0) return address;
    for (size_t i = 0; i < sizeof presenters / sizeof *presenters; i++) {
        if (strcmp(name, presenters[i].name) != 0) continue;
        // A library may itself resolve the name to the recorder.
        if (address != (uintptr_t)presenters[i].ours)
            atomic_set_release(presenters[i].next, address);
        return (uintptr_t)presenters[i].ours;
    }
    return address;
}

// Functions that return addresses; `name` is the argument with the name.
#define ASK(symbol, name)                                                                          \
    KEEL_EXPORT uintptr_t symbol(uintptr_t a, uintptr_t b);                                        \
    uintptr_t symbol(uintptr_t a, uintptr_t b) {                                                   \
        static atomic_word function;                                                               \
        any_function found = function_find(&function, #symbol);                                    \
        return found != NULL ? address_for((const char*)(name), found(a, b, 0, 0)) : 0;            \
    }

ASK(glXGetProcAddress, a)
ASK(glXGetProcAddressARB, a)
ASK(eglGetProcAddress, a)
ASK(SDL_GL_GetProcAddress, a)
ASK(glfwGetProcAddress, a)
ASK(vkGetInstanceProcAddr, b)
ASK(vkGetDeviceProcAddr, b)

/* looked_up_frames: ten frames by each of the functions that glXGetProcAddress,
 * eglGetProcAddress and vkGetDeviceProcAddr of the library picture.c return. */
#include "common.h"

extern void* glXGetProcAddress(const char* name);
extern void* eglGetProcAddress(const char* name);
extern void* vkGetDeviceProcAddr(void* device, const char* name);

int main(void) {
    void (*swap)(void*, unsigned long) = glXGetProcAddress("glXSwapBuffers");
    unsigned (*egl_swap)(void*, void*) = eglGetProcAddress("eglSwapBuffers");
    int (*show)(void*, const void*) = vkGetDeviceProcAddr(NULL, "vkQueuePresentKHR");
    int (*other)(void) = vkGetDeviceProcAddr(NULL, "other");
    if (glXGetProcAddress("no such function") != NULL || other == NULL || other() != 77) return 3;
    for (int i = 0; i < 10; i++) {
        swap(NULL, 42);
        if (egl_swap(NULL, NULL) != 1) return 4;
        if (show(&i, NULL) != 12) return 5;
    }
    return 0;
}

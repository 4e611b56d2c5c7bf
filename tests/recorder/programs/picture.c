/* A model of a graphics library. One presenting function calls another, which is still one
 * frame. */
#include <stdlib.h>

unsigned eglSwapBuffers(void* display, void* surface);
void glXSwapBuffers(void* display, unsigned long drawable);

unsigned eglSwapBuffers(void* display, void* surface) {
    return display == surface;
}
void glXSwapBuffers(void* display, unsigned long drawable) {
    if (drawable != 42 || eglSwapBuffers(display, NULL) != 1) abort();
}

/* A private function, as in a driver: it is available through vkGetDeviceProcAddr only. */
static int present(void* queue, const void* information) {
    return queue != NULL && information == NULL ? 12 : 0;
}
static int other(void) {
    return 77;
}

static int same(const char* one, const char* two) {
    while (*one != '\0' && *one == *two) one++, two++;
    return *one == *two;
}

void* glXGetProcAddress(const char* name);
void* eglGetProcAddress(const char* name);
void* vkGetDeviceProcAddr(void* device, const char* name);

void* glXGetProcAddress(const char* name) {
    return same(name, "glXSwapBuffers") ? (void*)glXSwapBuffers : NULL;
}
void* eglGetProcAddress(const char* name) {
    return same(name, "eglSwapBuffers") ? (void*)eglSwapBuffers : NULL;
}
void* vkGetDeviceProcAddr(void* device, const char* name) {
    if (device != NULL) return NULL;
    if (same(name, "vkQueuePresentKHR")) return (void*)present;
    return same(name, "other") ? (void*)other : NULL;
}

/* Stands for a graphics library; one presenting function calls another, which is still one frame.
 */
#include <stdlib.h>

unsigned eglSwapBuffers(void* display, void* surface);
void glXSwapBuffers(void* display, unsigned long drawable);

unsigned eglSwapBuffers(void* display, void* surface) {
    return display == surface;
}
void glXSwapBuffers(void* display, unsigned long drawable) {
    if (drawable != 42 || eglSwapBuffers(display, NULL) != 1) abort();
}

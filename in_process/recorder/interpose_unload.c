// Notices that code was unloaded (dlclose), so that no stack is walked by the rules of code that
// was at the same place before.
#include "base/atomic.h"
#include "base/attributes.h"
#include "unwind.h"
#include <dlfcn.h>
#include <stdint.h>

static atomic_word next_dlclose;

KEEL_EXPORT int dlclose(void* library);
int dlclose(void* library) {
    uintptr_t found = atomic_get_acquire(&next_dlclose);
    if (found == 0) {
        found = (uintptr_t)dlsym(RTLD_NEXT, "dlclose");
        atomic_set_release(&next_dlclose, found);
    }
    int result = found != 0 ? ((int (*)(void*))found)(library) : -1;
    unwind_forget();
    return result;
}

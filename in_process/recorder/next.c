#include "next.h"

#include "host.h"
#include <dlfcn.h>
#include <string.h>

// glibc's internal names of its allocator. They are weak, because other C libraries neither have
// nor need them.
extern void* __libc_malloc(size_t size) __attribute__((weak));
extern void __libc_free(void* block) __attribute__((weak));
extern void* __libc_calloc(size_t count, size_t size) __attribute__((weak));
extern void* __libc_realloc(void* block, size_t size) __attribute__((weak));
extern void* __libc_memalign(size_t align, size_t size) __attribute__((weak));

struct next_functions next = {
    .malloc = __libc_malloc,
    .free = __libc_free,
    .calloc = __libc_calloc,
    .realloc = __libc_realloc,
    .memalign = __libc_memalign,
};

// ISO C has no conversion from an object pointer to a function pointer. POSIX guarantees that the
// representation is valid.
#define NEXT_LOOK_UP(name)                                                                         \
    do {                                                                                           \
        void* found = dlsym(RTLD_NEXT, #name);                                                     \
        if (found != NULL) memcpy(&next.name, &found, sizeof found);                               \
    } while (0)

void next_resolve(void) {
    NEXT_LOOK_UP(malloc);
    NEXT_LOOK_UP(free);
    NEXT_LOOK_UP(calloc);
    NEXT_LOOK_UP(realloc);
    NEXT_LOOK_UP(memalign);
    NEXT_LOOK_UP(posix_memalign);
    NEXT_LOOK_UP(aligned_alloc);
    NEXT_LOOK_UP(valloc);
    NEXT_LOOK_UP(pvalloc);
    NEXT_LOOK_UP(malloc_usable_size);
    NEXT_LOOK_UP(free_sized);
    NEXT_LOOK_UP(free_aligned_sized);
    // A dlsym that fails allocates its error message. The next dlsym that succeeds frees the
    // message. Call it now, while neither call is recorded. dlerror must not be used: it translates
    // the message under the lock of the locale, and the caller of this malloc may hold that lock
    // (newlocale does).
    NEXT_LOOK_UP(malloc);
}

void* next_find(const char* name, const char* const* libraries) {
    void* found = dlsym(RTLD_NEXT, name);
    for (; found == NULL && *libraries != NULL; libraries++) {
        void* library = dlopen(*libraries, RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL) continue;
        found = dlsym(library, name);
        dlclose(library); // drops only the reference taken here
    }
    return found;
}

static const void* object_of(const void* address) {
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static const void* next_malloc_address(void) {
    const void* address = NULL;
    memcpy(&address, &next.malloc, sizeof address);
    return address;
}

bool next_is_allocator(void* function) {
    const void* object = object_of(function);
    return object != NULL && object == object_of(next_malloc_address());
}

void host_prepare(void) {
    next_resolve();
}

void host_stopped(void) {}

uint32_t host_embedded(void) {
    return 0;
}

const char* host_allocator(void) {
    Dl_info info;
    bool known = dladdr(next_malloc_address(), &info) != 0 && info.dli_fname != NULL;
    return known ? info.dli_fname : "";
}

// By interpose_unload.c.
bool host_notices_unloading(void) {
    return true;
}

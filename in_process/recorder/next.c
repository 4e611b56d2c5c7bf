#include "next.h"

#include "hooks.h"
#include "host.h"
#include "names.h"
#include "objects.h"
#include <dlfcn.h>
#include <stdint.h>
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

// Returns where the object begins that contains this address, or 0. dladdr is slow: it searches the
// symbols.
static uintptr_t object_of(const void* address) {
    struct object object;
    return object_find(&object, (uintptr_t)address) ? object.start : 0;
}

// In a program that runs already, this library is the last one and is not in the search order of
// the others, so the first definitions are the program's. What only this library defines is none.
static bool is_late;

static void* look_up(const char* name) {
    uintptr_t stub;
    if (!is_late) return dlsym(RTLD_NEXT, name);
    void* found = (void*)hooks_definition(name, &stub);
    return found != NULL && object_of(found) == object_of(&next) ? NULL : found;
}

// ISO C has no conversion from an object pointer to a function pointer. POSIX guarantees that the
// representation is valid.
#define NEXT_LOOK_UP(name)                                                                         \
    do {                                                                                           \
        void* found = look_up(#name);                                                              \
        if (found != NULL) memcpy(&next.name, &found, sizeof found);                               \
    } while (0)

uintptr_t next_names[NAME_COUNT];
bool next_has_names;

// Most programs have none of these allocators, and a look-up that fails costs 1 µs. So it looks
// first for a function that each of them has.
static void names_find(void) {
    static const char* const known[] = {"mallocx",   "je_mallocx", "_rjem_mallocx",
                                        "mi_malloc", "tc_malloc",  "kl_malloc"};
#define NAME_TEXT(symbol, ...) #symbol,
    static const char* const names[NAME_COUNT] = {ALLOCATOR_NAMES(NAME_TEXT)};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (dlsym(RTLD_NEXT, known[i]) != NULL) next_has_names = true;
    for (size_t i = 0; i < NAME_COUNT && next_has_names; i++)
        next_names[i] = (uintptr_t)dlsym(RTLD_NEXT, names[i]);
}

static const void* next_malloc_address(void);

// The addresses of the object that contains the next malloc.
static uintptr_t allocator_start;
static uintptr_t allocator_end;

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
    NEXT_LOOK_UP(free_sized);
    NEXT_LOOK_UP(free_aligned_sized);
    NEXT_LOOK_UP(mmap);
    names_find();
    struct object allocator;
    if (object_find(&allocator, (uintptr_t)next_malloc_address())) {
        allocator_start = allocator.start;
        allocator_end = allocator.end;
    }
    // A dlsym that fails allocates its error message. The next dlsym that succeeds frees the
    // message. Call it now, while neither call is recorded. dlerror must not be used: it translates
    // the message under the lock of the locale, and the caller of this malloc may hold that lock
    // (newlocale does).
    NEXT_LOOK_UP(malloc);
}

void next_of_running_program(void) {
    is_late = true;
    next_resolve();
}

void* next_find(const char* name, const char* const* libraries) {
    void* found = look_up(name);
    for (; found == NULL && *libraries != NULL; libraries++) {
        void* library = dlopen(*libraries, RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL) continue;
        found = dlsym(library, name);
        dlclose(library); // drops only the reference taken here
    }
    return found;
}

static const void* next_malloc_address(void) {
    const void* address = NULL;
    memcpy(&address, &next.malloc, sizeof address);
    return address;
}

bool next_is_allocator(void* function) {
    uintptr_t object = object_of(function);
    return object != 0 && object == object_of(next_malloc_address());
}

bool next_is_allocator_code(const void* address) {
    return (uintptr_t)address - allocator_start < allocator_end - allocator_start;
}

void host_prepare(void) {
    next_resolve();
}

void host_stopped(void) {}

void host_look(void) {
    hooks_renew();
}

uint32_t host_embedded(void) {
    return 0;
}

static const char* path_of(const void* address) {
    Dl_info info;
    bool known = dladdr(address, &info) != 0 && info.dli_fname != NULL;
    return known ? info.dli_fname : "";
}

const char* host_allocator(void) {
    return path_of(next_malloc_address());
}

// The functions that a program may combine with malloc and free.
const char* host_other_allocator(void) {
    uintptr_t own = object_of(next_malloc_address());
    const void* others[6];
    memcpy(&others[0], &next.free, sizeof others[0]);
    memcpy(&others[1], &next.calloc, sizeof others[1]);
    memcpy(&others[2], &next.realloc, sizeof others[2]);
    memcpy(&others[3], &next.posix_memalign, sizeof others[3]);
    memcpy(&others[4], &next.aligned_alloc, sizeof others[4]);
    memcpy(&others[5], &next.memalign, sizeof others[5]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i] != NULL && object_of(others[i]) != own) return path_of(others[i]);
    for (size_t i = 0; i < NAME_COUNT && next_has_names; i++) {
        const void* named = (const void*)next_names[i];
        if (named != NULL && object_of(named) != own) return path_of(named);
    }
    return "";
}

// By interpose_unload.c.
bool host_notices_unloading(void) {
    return true;
}

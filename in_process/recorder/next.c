#include "next.h"

#include "base/attributes.h"
#include "hooks.h"
#include "host.h"
#include "names.h"
#include "objects.h"
#include "patch.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// glibc's internal names of its allocator. They are weak, because other C libraries neither have
// nor need them.
extern void* __libc_malloc(size_t size) __attribute__((weak));
extern void __libc_free(void* block) __attribute__((weak));
extern void* __libc_calloc(size_t count, size_t size) __attribute__((weak));
extern void* __libc_realloc(void* block, size_t size) __attribute__((weak));
extern void* __libc_memalign(size_t align, size_t size) __attribute__((weak));

// A library in front that replaces dl_iterate_phdr may allocate by any function during the first
// search.
static int first_posix_memalign(void** block, size_t align, size_t size) {
    *block = __libc_memalign != NULL ? __libc_memalign(align, size) : NULL;
    return *block != NULL ? 0 : ENOMEM;
}
static void* first_page_aligned(size_t size) {
    return __libc_memalign != NULL ? __libc_memalign((size_t)sysconf(_SC_PAGESIZE), size) : NULL;
}

struct next_functions next = {
    .malloc = __libc_malloc,
    .free = __libc_free,
    .calloc = __libc_calloc,
    .realloc = __libc_realloc,
    .memalign = __libc_memalign,
    .posix_memalign = first_posix_memalign,
    .aligned_alloc = __libc_memalign,
    .valloc = first_page_aligned,
    .pvalloc = first_page_aligned,
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

// A dlsym that fails allocates its message by the program's malloc, and the next one frees it. If
// the program's free calls dlsym, that does not end. So dlsym is only called for what a loaded
// object defines.
static void* look_up(const char* name) {
    uintptr_t stub;
    if (!is_late) return object_next_defines(name) ? dlsym(RTLD_NEXT, name) : NULL;
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

uintptr_t next_names[ALL_NAMES_COUNT];
bool next_has_names;
bool next_is_inner[ALL_NAMES_COUNT];

#define NAME_TEXT(symbol, ...) #symbol "\0"
KEEL_EXPORT const char kl_record_names[] =
    ALLOCATOR_NAMES(NAME_TEXT) "\0" PROGRAM_NAMES(NAME_TEXT) "\0" CALLED_NAMES(NAME_TEXT);

// Most programs have none of these allocators. So it looks first for a function that each of them
// has.
static void names_find(void) {
    static const char* const known[] = {"mallocx",   "je_mallocx", "_rjem_mallocx",
                                        "mi_malloc", "tc_malloc",  "kl_malloc"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (look_up(known[i]) != NULL) next_has_names = true;
    const char* name = kl_record_names;
    for (size_t i = 0; i < ALL_NAMES_COUNT && next_has_names; i++, name += strlen(name) + 1)
        if (i < NAME_COUNT || i > PROGRAM_NAMES_END) next_names[i] = (uintptr_t)look_up(name);
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
    if (!is_late) names_find();
    struct object allocator;
    if (object_find(&allocator, (uintptr_t)next_malloc_address())) {
        allocator_start = allocator.start;
        allocator_end = allocator.end;
    }
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

void host_patch(const char* folder, uint64_t count) {
    patches_read(folder, count);
}

// The C library knows the program by its first argument, which need not be a path.
static const char* path_of(const void* address) {
    static char program[256];
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return "";
    if (info.dli_fname[0] == '/') return info.dli_fname;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    return program;
}

// The function that the program calls by this name.
static const void* called(uint32_t name, const void* following) {
    const void* own = (const void*)patches_function(name);
    return own != NULL ? own : following;
}

const char* host_allocator(void) {
    return path_of(called(NAME_INDEX_malloc, next_malloc_address()));
}

// The functions that a program may combine with malloc and free.
const char* host_other_allocator(void) {
    uintptr_t own = object_of(called(NAME_INDEX_malloc, next_malloc_address()));
    const void* others[7];
#define OTHER(at, name)                                                                            \
    memcpy(&others[at], &next.name, sizeof others[at]);                                            \
    others[at] = called(NAME_INDEX_##name, others[at])
    OTHER(0, free);
    OTHER(1, calloc);
    OTHER(2, realloc);
    OTHER(3, posix_memalign);
    OTHER(4, aligned_alloc);
    OTHER(5, memalign);
    others[6] = (const void*)patches_function(ALL_NAMES_COUNT);
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

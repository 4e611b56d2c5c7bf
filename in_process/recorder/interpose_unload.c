// Notices that code was unloaded (dlclose). No stack is then walked by the rules of code that was
// at the same place before, and the reader learns which object file the calls before belong to: a
// plug-in may be loaded, used and closed between two looks of the reader at /proc/PID/maps.
//
// The names of the objects are gone after the call, so they are copied before it. The copy is a
// mapping of its own, because the caller's stack may be small.
#include "base/atomic.h"
#include "base/attributes.h"
#include "next.h"
#include "thread.h"
#include "unwind.h"
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { LOADED_BYTES = 1 << 20, PATH_PIECE_BYTES = 16 };

// Code of an object file; its path follows, NUL-terminated.
struct code {
    uint64_t start;
    uint64_t end;
    uint64_t offset; // in the file
    uint32_t path_bytes;
    uint32_t is_loaded;
};

// The code of all objects, in LOADED_BYTES.
struct loaded {
    unsigned long long unloads; // so far, as the loader counts them
    size_t bytes;               // of `code`
    struct code code[];
};

static struct code* code_after(struct code* code) {
    size_t path = (code->path_bytes + sizeof(uint64_t)) & ~(sizeof(uint64_t) - 1);
    return (struct code*)((char*)(code + 1) + path);
}

static struct code* code_end(struct loaded* loaded) {
    return (struct code*)((char*)loaded->code + loaded->bytes);
}

static struct code code_of(const struct dl_phdr_info* object, const ElfW(Phdr) * segment) {
    uint64_t within = segment->p_offset & (KL_PAGE_BYTES - 1);
    uint64_t start = object->dlpi_addr + segment->p_vaddr;
    return (struct code){.start = start - within,
                         .end = start + segment->p_memsz,
                         .offset = segment->p_offset - within};
}

// Segments that do not fit are left out.
static int object_copy(struct dl_phdr_info* object, size_t size, void* data) {
    (void)size;
    struct loaded* loaded = data;
    loaded->unloads = object->dlpi_subs;
    size_t path_bytes = strlen(object->dlpi_name);
    for (int i = 0; i < object->dlpi_phnum && path_bytes > 0; i++) {
        const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
        struct code* code = code_end(loaded);
        size_t room = LOADED_BYTES - sizeof *loaded - loaded->bytes;
        if (room < sizeof *code + path_bytes + sizeof(uint64_t)) return 1;
        *code = code_of(object, segment);
        code->path_bytes = (uint32_t)path_bytes;
        memcpy(code + 1, object->dlpi_name, path_bytes + 1);
        loaded->bytes = (size_t)((char*)code_after(code) - (char*)loaded->code);
    }
    return 0;
}

static int object_find(struct dl_phdr_info* object, size_t size, void* data) {
    (void)size;
    struct loaded* loaded = data;
    if (loaded->unloads == object->dlpi_subs) return 1; // nothing was unloaded
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
        uint64_t start = code_of(object, segment).start;
        struct code* code = loaded->code;
        for (; code < code_end(loaded); code = code_after(code))
            if (code->start == start) code->is_loaded = 1;
    }
    return 0;
}

static void code_record(const struct code* code) {
    const char* path = (const char*)(code + 1);
    for (uint32_t at = 0; at < code->path_bytes; at += PATH_PIECE_BYTES) {
        uint64_t halves[2] = {0, 0};
        uint32_t left = code->path_bytes - at;
        memcpy(halves, path + at, left < PATH_PIECE_BYTES ? left : PATH_PIECE_BYTES);
        record(KL_RING_PATH, ticks(), (const void*)halves[0], halves[1], 0);
    }
    record(KL_RING_UNLOADED, ticks(), (const void*)code->start, code->end, code->offset);
}

static struct loaded* objects_copy(void) {
    if (!recording()) return NULL;
    struct loaded* loaded = next.mmap(NULL, LOADED_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (loaded == MAP_FAILED) return NULL;
    dl_iterate_phdr(object_copy, loaded);
    return loaded;
}

static void unloaded_record(struct loaded* loaded) {
    // Returns 1 if nothing was unloaded.
    if (dl_iterate_phdr(object_find, loaded) == 0) {
        struct code* code = loaded->code;
        for (; code < code_end(loaded); code = code_after(code))
            if (code->is_loaded == 0) code_record(code);
    }
    munmap(loaded, LOADED_BYTES);
}

static atomic_word next_dlclose;

KEEL_EXPORT int dlclose(void* library);
int dlclose(void* library) {
    uintptr_t found = atomic_get_acquire(&next_dlclose);
    if (found == 0) {
        found = (uintptr_t)dlsym(RTLD_NEXT, "dlclose");
        atomic_set_release(&next_dlclose, found);
    }
    struct loaded* loaded = objects_copy();
    int result = found != 0 ? ((int (*)(void*))found)(library) : -1;
    unwind_forget();
    if (loaded != NULL) unloaded_record(loaded);
    return result;
}

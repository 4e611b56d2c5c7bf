#include "patch.h"

#include "base/attributes.h"
#include "journal/ring.h"
#include "names.h"
#include "objects.h"
#include "signals.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

// The recorder's memory for one function: `jump` to the address `entry`, then the code.
struct detour {
    uint8_t jump[16];
    uint64_t entry;
    uint8_t land[4]; // endbr64
    uint8_t code[KL_PATCH_CODE_BYTES];
    uint8_t padding[36];
};
static_assert(sizeof(struct detour) == 128, "whole ones in a page");

static struct kl_patch* patches; // a private copy
static size_t patch_count;
static uintptr_t object_start, object_end; // of the program

static const char* file_of(const struct dl_phdr_info* object) {
    return object->dlpi_name[0] != '\0' ? object->dlpi_name : "/proc/self/exe";
}

// A system call, because glibc before 2.33 has no function stat.
static bool file_look(const struct dl_phdr_info* object, struct stat* file) {
    return syscall(SYS_newfstatat, AT_FDCWD, file_of(object), file, 0) == 0;
}

static int object_match(struct dl_phdr_info* object, size_t size, void* data) {
    (void)size;
    (void)data;
    struct stat file;
    if (!file_look(object, &file)) return 0;
    for (size_t i = 0; i < patch_count; i++) {
        if (patches[i].device != file.st_dev || patches[i].inode != file.st_ino) continue;
        patches[i].base = object->dlpi_addr;
        patches[i].is_loaded = 1;
    }
    return 0;
}

void patches_read(const char* folder, uint64_t count) {
    char path[PATH_MAX];
    size_t bytes = count * sizeof(struct kl_patch);
    int length = snprintf(path, sizeof path, "%s/" KL_PATCHES_NAME, folder);
    if (patches != NULL || length < 0 || (size_t)length >= sizeof path) return;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return;
    void* memory = MAP_FAILED;
    if (lseek(file, 0, SEEK_END) == (off_t)bytes)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    close(file);
    if (memory == MAP_FAILED) return;
    patches = memory;
    patch_count = count;
    dl_iterate_phdr(object_match, NULL);
}

uintptr_t patches_function(uint32_t name) {
    for (size_t i = 0; i < patch_count; i++) {
        const struct kl_patch* patch = &patches[i];
        bool is_it = name == patch->name || (name == ALL_NAMES_COUNT && patch->code_bytes != 0);
        if (patch->is_loaded && is_it) return patch->base + patch->function;
    }
    return 0;
}

bool patches_contain(const void* address) {
    return (uintptr_t)address - object_start < object_end - object_start;
}

// Code must not change while another thread executes it. A protected stack refuses the return
// address that the code of a call pushes (lab/record/src/contained/code.rs).
static uint32_t process_state(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) close(file);
    if (length <= 0) return KL_PATCHES_THREADS;
    text[length] = '\0';
    const char* features = strstr(text, "\nx86_Thread_features:");
    const char* shadow = features != NULL ? strstr(features, "shstk") : NULL;
    if (shadow != NULL && shadow < features + 1 + strcspn(features + 1, "\n"))
        return KL_PATCHES_SHADOW;
    return strstr(text, "\nThreads:\t1\n") != NULL ? KL_PATCHES_DONE : KL_PATCHES_THREADS;
}

static void* room_at(uintptr_t address, size_t bytes) {
    void* memory = mmap((void*)address, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == (void*)address) return memory;
    if (memory != MAP_FAILED) munmap(memory, bytes); // a kernel that does not know the flag
    return NULL;
}

// Returns memory near the address. First below it: the heap (brk) may begin after the program.
static void* room_near(uintptr_t address, size_t bytes) {
    const uintptr_t step = 1 << 20;
    const uintptr_t most = (uintptr_t)1 << 30;
    const uintptr_t lowest = 1 << 16;
    void* memory = NULL;
    address &= ~(uintptr_t)(KL_PAGE_BYTES - 1);
    for (uintptr_t away = step; memory == NULL && away < most && address > away + lowest;
         away += step)
        memory = room_at(address - away, bytes);
    for (uintptr_t away = most; memory == NULL && away < most + most / 2; away += 16 * step)
        memory = room_at(address + away, bytes);
    return memory;
}

static bool is_distance(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

// Adapts the code to its place. Returns false if that is too far away.
static bool code_place(const struct kl_patch* patch, uint8_t* code) {
    int64_t moved = (int64_t)(patch->base + patch->place - (uintptr_t)code);
    memcpy(code, patch->code, sizeof patch->code);
    for (size_t i = 0; i < KL_PATCH_CODE_BYTES; i++) {
        if ((patch->distances >> i & 1) != 0 && i + sizeof(int32_t) <= KL_PATCH_CODE_BYTES) {
            int32_t distance;
            memcpy(&distance, code + i, sizeof distance);
            if (!is_distance(distance + moved)) return false;
            distance = (int32_t)(distance + moved);
            memcpy(code + i, &distance, sizeof distance);
        }
        if ((patch->addresses >> i & 1) != 0 && i + sizeof(uint64_t) <= KL_PATCH_CODE_BYTES) {
            uint64_t address;
            memcpy(&address, code + i, sizeof address);
            address += patch->base;
            memcpy(code + i, &address, sizeof address);
        }
    }
    return true;
}

static uint8_t* jump_of(const struct kl_patch* patch) {
    return (uint8_t*)(patch->base + patch->function + patch->skipped);
}

static uint32_t detour_fill(const struct kl_patch* patch, struct detour* detour, uintptr_t entry) {
    const uint8_t* jump = jump_of(patch);
    if (patch->name >= ALL_NAMES_COUNT || entry == 0 ||
        patch->original_bytes > sizeof patch->original ||
        memcmp(jump, patch->original, patch->original_bytes) != 0)
        return KL_PATCHES_DIFFER;
    // push $name; notrack jmp *4(%rip); endbr64
    memcpy(detour->jump, "\x68....\x3e\xff\x25\x04\x00\x00\x00\xcc\xcc\xcc\xcc",
           sizeof detour->jump);
    memcpy(detour->jump + 1, &patch->name, sizeof patch->name);
    memcpy(detour->land, "\xf3\x0f\x1e\xfa", sizeof detour->land);
    detour->entry = entry;
    bool fits =
        code_place(patch, detour->code) && is_distance(detour->jump - (jump + KL_PATCH_JUMP_BYTES));
    return fits ? KL_PATCHES_DONE : KL_PATCHES_NO_ROOM;
}

static uint32_t refused(void) {
    return KL_PATCHES_REFUSED | (uint32_t)errno << 8;
}

// The pages of a function's jump.
struct pages {
    const struct kl_patch* patch;
    uint8_t* start;
    size_t bytes;
};

static struct pages pages_of(const struct kl_patch* patch) {
    uintptr_t jump = (uintptr_t)jump_of(patch);
    uintptr_t start = jump & ~(uintptr_t)(KL_PAGE_BYTES - 1);
    uintptr_t end =
        (jump + KL_PATCH_JUMP_BYTES + KL_PAGE_BYTES - 1) & ~(uintptr_t)(KL_PAGE_BYTES - 1);
    return (struct pages){patch, (uint8_t*)start, end - start};
}

static int pages_map(struct dl_phdr_info* object, size_t size, void* data) {
    (void)size;
    const struct pages* pages = data;
    const struct kl_patch* patch = pages->patch;
    struct stat file;
    if (!file_look(object, &file) || patch->inode != file.st_ino) return 0;
    if (patch->device != file.st_dev) return 0;
    int code = open(file_of(object), O_RDONLY | O_CLOEXEC);
    uintptr_t within = patch->base + patch->function - (uintptr_t)pages->start;
    mmap(pages->start, pages->bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, code,
         (off_t)(patch->offset - within));
    close(code);
    return 1;
}

// Replaces the first instructions by a jump. A page is never writable and executable at once.
// Nothing executes it meanwhile: this is the only thread, and signals are blocked.
static uint32_t jump_write(const struct kl_patch* patch, const struct detour* detour) {
    uint8_t* jump = jump_of(patch);
    struct pages pages = pages_of(patch);
    int32_t distance = (int32_t)(detour->jump - (jump + KL_PATCH_JUMP_BYTES));
    if (mprotect(pages.start, pages.bytes, PROT_READ | PROT_WRITE) != 0) return refused();
    jump[0] = 0xe9;
    memcpy(jump + 1, &distance, sizeof distance);
    if (mprotect(pages.start, pages.bytes, PROT_READ | PROT_EXEC) == 0) return KL_PATCHES_DONE;
    // Such a system (SELinux's execmod) executes only what is in the file.
    uint32_t state = refused();
    dl_iterate_phdr(pages_map, &pages);
    return state;
}

// Patches the functions from `first` to `last`, which are in one object.
static uint32_t object_apply(size_t first, size_t last, uintptr_t entry, uintptr_t* theirs) {
    uint32_t state = KL_PATCHES_DONE;
    size_t bytes =
        ((last - first) * sizeof(struct detour) + KL_PAGE_BYTES - 1) & ~(size_t)(KL_PAGE_BYTES - 1);
    struct detour* detours = room_near((uintptr_t)jump_of(&patches[first]), bytes);
    if (detours == NULL) return KL_PATCHES_NO_ROOM;
    for (size_t i = first; i < last && state == KL_PATCHES_DONE; i++)
        if (patches[i].code_bytes != 0)
            state = detour_fill(&patches[i], &detours[i - first], entry);
    if (state == KL_PATCHES_DONE && mprotect(detours, bytes, PROT_READ | PROT_EXEC) != 0)
        state = refused();
    for (size_t i = first; i < last && state == KL_PATCHES_DONE; i++) {
        const struct kl_patch* patch = &patches[i];
        bool changes = patch->code_bytes != 0;
        uintptr_t function = patch->base + patch->function;
        theirs[patch->name] = changes ? (uintptr_t)detours[i - first].land : function;
        if (changes) state = jump_write(patch, &detours[i - first]);
    }
    return state;
}

uint32_t patches_apply(uintptr_t entry, uintptr_t* theirs) {
    int saved_errno = errno;
    struct object object;
    uintptr_t function = patches_function(ALL_NAMES_COUNT);
    if (function == 0) return KL_PATCHES_NONE;
    if (object_find(&object, function)) {
        object_start = object.start;
        object_end = object.end;
    }
    uint32_t state = process_state();
    signal_set before = signals_block();
    for (size_t first = 0, last; first < patch_count && state == KL_PATCHES_DONE; first = last) {
        for (last = first; last < patch_count && patches[last].inode == patches[first].inode;)
            last++;
        if (patches[first].is_loaded) state = object_apply(first, last, entry, theirs);
    }
    signals_restore(before);
    errno = saved_errno;
    return state;
}

#include "os/call.h"
#include "os/confined.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/stack.h"
#include <elf.h>
#include <string.h>
#include <sys/uio.h>

// --- The mappings --------------------------------------------------------------------------------

static bool read_maps(struct os_maps* maps) {
    int file = os_file_open("/proc/self/maps");
    if (file < 0) return false;
    maps->length = os_file_read_open(file, maps->text, maps->mapped_bytes);
    os_file_close(file);
    return maps->length > 0;
}

bool os_maps_read(struct os_maps* maps) {
    bool done = false;
    maps->length = 0;
    for (size_t bytes = (size_t)256 << 10; !done && bytes <= (size_t)64 << 20; bytes *= 4) {
        maps->mapped_bytes = bytes;
        maps->text = os_map(bytes, os_page_bytes());
        if (maps->text == NULL) break;
        done = read_maps(maps) && maps->length < bytes;
        if (!done) os_unmap(maps->text, bytes);
    }
    if (!done) maps->length = 0;
    return done;
}

void os_maps_free(struct os_maps* maps) {
    os_unmap(maps->text, maps->mapped_bytes);
}

static uintptr_t hex(const char** text) {
    uintptr_t value = 0;
    for (;; (*text)++) {
        char digit = **text;
        if (digit >= '0' && digit <= '9')
            value = value * 16 + (uintptr_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            value = value * 16 + (uintptr_t)(digit - 'a' + 10);
        else
            return value;
    }
}

static const char* next_word(const char* text) {
    while (*text != ' ' && *text != '\n') text++;
    while (*text == ' ') text++;
    return text;
}

// "start-end rwxp offset device inode      path\n". The text ends with such a line.
bool os_maps_next(const struct os_maps* maps, size_t* at, struct os_mapping* mapping) {
    if (*at >= maps->length) return false;
    const char* text = maps->text + *at;
    mapping->start = hex(&text);
    text++;
    mapping->end = hex(&text);
    text++;
    mapping->readable = text[0] == 'r';
    mapping->writable = text[1] == 'w';
    mapping->shared = text[3] == 's';
    text += 5;
    mapping->file_offset = hex(&text);
    mapping->path = next_word(next_word(next_word(text)));
    const char* end =
        memchr(mapping->path, '\n', maps->length - (size_t)(mapping->path - maps->text));
    if (end == NULL) return false;
    mapping->path_length = (size_t)(end - mapping->path);
    *at = (size_t)(end + 1 - maps->text);
    return true;
}

static bool same_path(const struct os_mapping* a, const struct os_mapping* b) {
    return a->path_length == b->path_length && memcmp(a->path, b->path, a->path_length) == 0;
}

// A program at a fixed address states its functions' addresses, another file their distances from
// its beginning.
static uintptr_t offset_in_file(const struct os_mapping* first, uintptr_t address) {
    Elf64_Ehdr header;
    if (os_read_memory(first->start, &header, sizeof header) == sizeof header &&
        header.e_type == ET_EXEC)
        return address;
    return address - first->start;
}

bool os_maps_find(const struct os_maps* maps, uintptr_t address, struct os_module* module) {
    struct os_mapping mapping, first = {.start = 0};
    for (size_t at = 0; os_maps_next(maps, &at, &mapping);) {
        if (mapping.file_offset == 0 || !same_path(&mapping, &first)) first = mapping;
        if (address < mapping.start || address >= mapping.end) continue;
        if (mapping.path_length == 0 || mapping.path[0] != '/') return false;
        *module =
            (struct os_module){mapping.path, mapping.path_length, offset_in_file(&first, address)};
        return true;
    }
    return false;
}

size_t os_read_memory(uintptr_t address, void* buffer, size_t bytes) {
    if (!os_may_look()) return 0;
    struct iovec to = {buffer, bytes}, from = {(void*)address, bytes};
    intptr_t count = os_call(SYS_process_vm_readv, os_process_id(), &to, 1, &from, 1);
    return count < 0 ? 0 : (size_t)count;
}

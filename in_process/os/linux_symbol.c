#include "os/call.h"
#include "os/file.h"
#include "os/symbol.h"
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// A file in memory. Its contents may be wrong, so each part is verified before it is read.
struct file {
    const char* start;
    size_t bytes;
};

static bool file_map(const struct os_module* module, struct file* file) {
    char path[4096];
    if (module->path_length >= sizeof path) return false;
    memcpy(path, module->path, module->path_length);
    path[module->path_length] = '\0';
    int number = os_file_open(path);
    if (number < 0) return false;
    intptr_t bytes = os_call(SYS_lseek, number, 0, SEEK_END);
    intptr_t start = -1;
    if (bytes > 0) start = os_call(SYS_mmap, NULL, bytes, PROT_READ, MAP_PRIVATE, number);
    os_file_close(number);
    *file = (struct file){(const char*)start, (size_t)bytes};
    return !os_call_failed(start);
}

// NULL: the file has no such part.
static const void* part(const struct file* file, uint64_t offset, uint64_t bytes) {
    if (offset > file->bytes || bytes > file->bytes - offset || offset % 8 != 0) return NULL;
    return file->start + offset;
}

static const ElfW(Shdr) * sections_of(const struct file* file, unsigned* count) {
    const ElfW(Ehdr)* header = part(file, 0, sizeof *header);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return NULL;
    if (header->e_shentsize != sizeof(ElfW(Shdr))) return NULL;
    *count = header->e_shnum;
    return part(file, header->e_shoff, (uint64_t)*count * sizeof(ElfW(Shdr)));
}

// A table of names need not be aligned.
static bool name_is(const struct file* file, const ElfW(Shdr) * names, size_t at,
                    struct os_name name) {
    if (names->sh_offset > file->bytes || names->sh_size > file->bytes - names->sh_offset)
        return false;
    if (at >= names->sh_size || names->sh_size - at <= name.length) return false;
    const char* text = file->start + names->sh_offset + at;
    if (memcmp(text, name.text, name.length) != 0) return false;
    return name.is_prefix || text[name.length] == '\0' || text[name.length] == '@';
}

static bool is_in(const struct file* file, const ElfW(Shdr) * table, const ElfW(Shdr) * names,
                  uintptr_t offset, struct os_name name) {
    const size_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym)* symbols = part(file, table->sh_offset, table->sh_size);
    for (size_t i = 0; symbols != NULL && i < count; i++) {
        const ElfW(Sym)* symbol = &symbols[i];
        unsigned type = symbol->st_info & 15;
        if (type != STT_FUNC && type != STT_GNU_IFUNC) continue;
        if (offset - symbol->st_value >= symbol->st_size) continue;
        if (name_is(file, names, symbol->st_name, name)) return true;
    }
    return false;
}

static bool is_in_file(const struct file* file, uintptr_t offset, struct os_name name) {
    unsigned count = 0;
    const ElfW(Shdr)* sections = sections_of(file, &count);
    for (unsigned i = 0; sections != NULL && i < count; i++) {
        const ElfW(Shdr)* table = &sections[i];
        bool symbols = table->sh_type == SHT_SYMTAB || table->sh_type == SHT_DYNSYM;
        if (!symbols || table->sh_link >= count) continue;
        if (is_in(file, table, &sections[table->sh_link], offset, name)) return true;
    }
    return false;
}

bool os_function_is(const struct os_module* module, struct os_name name) {
    struct file file;
    bool found = false;
    if (file_map(module, &file)) {
        found = is_in_file(&file, module->offset, name);
        (void)os_call(SYS_munmap, file.start, file.bytes);
    }
    return found;
}

#include "os/symbol.h"
#include "os/thread.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// A file in memory. Its contents may be wrong, so each part is verified before it is read.
struct file {
    const char* start;
    size_t bytes;
};

static bool file_map(const struct os_module* module, struct file* file) {
    char path[4096];
    struct stat status;
    if (module->path_length >= sizeof path) return false;
    memcpy(path, module->path, module->path_length);
    path[module->path_length] = '\0';
    int number = open(path, O_RDONLY | O_CLOEXEC);
    if (number < 0) return false;
    void* start = MAP_FAILED;
    file->bytes = fstat(number, &status) == 0 ? (size_t)status.st_size : 0;
    if (file->bytes > 0) start = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, number, 0);
    (void)close(number);
    file->start = start;
    return start != MAP_FAILED;
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
    int saved = errno;
    int cancelling = os_cancel_disable();
    bool found = false;
    if (file_map(module, &file)) {
        found = is_in_file(&file, module->offset, name);
        (void)munmap((void*)(uintptr_t)file.start, file.bytes);
    }
    os_cancel_restore(cancelling);
    errno = saved;
    return found;
}

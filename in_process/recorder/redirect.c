#include "redirect.h"

#include "journal/ring.h"
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

// The relocations of a word that the loader sets to the address of a function.
#if defined(__x86_64__)
static const uint64_t relocations[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64};
#elif defined(__aarch64__)
static const uint64_t relocations[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
#else // nothing is replaced
static const uint64_t relocations[] = {UINT64_MAX};
#endif

struct entries {
    const struct redirect* entries;
    size_t count;
};

// What an object file's dynamic section says.
struct object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char* names;
    const ElfW(Rela) * tables[2];
    size_t bytes[2];
    uintptr_t read_only; // the part that the loader has protected after relocation
    uintptr_t read_only_end;
};

// glibc has relocated these addresses, except those of the kernel's own object; other C libraries
// have not.
static uintptr_t dynamic_address(const struct dl_phdr_info* info, const ElfW(Dyn) * entry) {
    uintptr_t address = entry->d_un.d_ptr;
    return address < info->dlpi_addr ? address + info->dlpi_addr : address;
}

static void dynamic_read(struct object* object, const struct dl_phdr_info* info,
                         const ElfW(Dyn) * entry) {
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            object->symbols = (void*)dynamic_address(info, entry);
            break;
        case DT_STRTAB:
            object->names = (void*)dynamic_address(info, entry);
            break;
        case DT_JMPREL:
            object->tables[0] = (void*)dynamic_address(info, entry);
            break;
        case DT_PLTRELSZ:
            object->bytes[0] = entry->d_un.d_val;
            break;
        case DT_RELA:
            object->tables[1] = (void*)dynamic_address(info, entry);
            break;
        case DT_RELASZ:
            object->bytes[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

static struct object object_read(const struct dl_phdr_info* info) {
    struct object object = {.base = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) dynamic_read(&object, info, (void*)start);
        if (segment->p_type != PT_GNU_RELRO) continue;
        // The loader protects whole pages.
        object.read_only = start & ~(uintptr_t)(KL_PAGE_BYTES - 1);
        object.read_only_end = (start + segment->p_memsz) & ~(uintptr_t)(KL_PAGE_BYTES - 1);
    }
    return object;
}

static const struct redirect* entry_find(const struct entries* all, const char* name) {
    size_t low = 0;
    size_t high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, all->entries[middle].name);
        if (order == 0) return &all->entries[middle];
        if (order < 0) high = middle;
        if (order > 0) low = middle + 1;
    }
    return NULL;
}

static void word_replace(const struct object* object, uintptr_t* word, uintptr_t value) {
    uintptr_t address = (uintptr_t)word;
    bool is_protected = address >= object->read_only && address < object->read_only_end;
    void* page = (void*)(address & ~(uintptr_t)(KL_PAGE_BYTES - 1));
    if (is_protected && mprotect(page, KL_PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) return;
    *word = value;
    if (is_protected) mprotect(page, KL_PAGE_BYTES, PROT_READ);
}

static bool sets_address(const ElfW(Rela) * relocation) {
    bool is_one = false;
    for (size_t i = 0; i < sizeof relocations / sizeof *relocations; i++)
        is_one |= ELF64_R_TYPE(relocation->r_info) == relocations[i];
    return is_one && relocation->r_addend == 0;
}

static void table_replace(const struct object* object, int table, const struct entries* all) {
    const ElfW(Rela)* relocation = object->tables[table];
    const ElfW(Rela)* end = relocation + object->bytes[table] / sizeof *relocation;
    for (; relocation < end; relocation++) {
        const ElfW(Sym)* symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
        // An object file that defines the function keeps its own calls.
        if (!sets_address(relocation) || symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0)
            continue;
        const struct redirect* entry = entry_find(all, object->names + symbol->st_name);
        if (entry == NULL || entry->ours == 0) continue;
        word_replace(object, (uintptr_t*)(object->base + relocation->r_offset), entry->ours);
    }
}

static int object_replace(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct object object = object_read(info);
    for (int table = 0; table < 2; table++)
        if (object.tables[table] != NULL && object.symbols != NULL && object.names != NULL)
            table_replace(&object, table, data);
    return 0;
}

void redirect_apply(const struct redirect* entries, size_t count) {
    struct entries all = {entries, count};
    dl_iterate_phdr(object_replace, &all);
}

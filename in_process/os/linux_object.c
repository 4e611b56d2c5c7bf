#include "os/linux_object.h"
#include <string.h>

static void segments_read(struct object* object, const struct dl_phdr_info* info) {
    object->start = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        uintptr_t end = start + segment->p_memsz;
        if (segment->p_type == PT_LOAD) {
            if (start < object->start) object->start = start;
            if (end > object->end) object->end = end;
        } else if (segment->p_type == PT_GNU_RELRO) {
            object->relro = start;
            object->relro_end = end;
        }
    }
}

// glibc adds the base to the addresses in the dynamic section, except in the kernel's object; other
// C libraries do not.
static const void* dynamic_pointer(const struct object* object, uintptr_t value) {
    return (const void*)(object_contains(object, value) ? value : object->base + value);
}

static void dynamic_entry(struct object* object, const ElfW(Dyn) * entry) {
    uintptr_t value = entry->d_un.d_ptr;
    switch (entry->d_tag) {
    case DT_SYMTAB:
        object->symbols = dynamic_pointer(object, value);
        break;
    case DT_STRTAB:
        object->names = dynamic_pointer(object, value);
        break;
    case DT_GNU_HASH:
        object->gnu_hash = dynamic_pointer(object, value);
        break;
    case DT_HASH:
        object->hash = dynamic_pointer(object, value);
        break;
    case DT_VERDEF:
        object->version_names = dynamic_pointer(object, value);
        break;
    case DT_VERSYM:
        object->versions = dynamic_pointer(object, value);
        break;
    case DT_JMPREL:
        object->tables[0] = dynamic_pointer(object, value);
        break;
    case DT_PLTRELSZ:
        object->counts[0] = value / sizeof(ElfW(Rela));
        break;
    case DT_RELA:
        object->tables[1] = dynamic_pointer(object, value);
        break;
    case DT_RELASZ:
        object->counts[1] = value / sizeof(ElfW(Rela));
        break;
    default:
        break;
    }
}

bool object_read(struct object* object, const struct dl_phdr_info* info) {
    *object = (struct object){.base = info->dlpi_addr};
    segments_read(object, info);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn)* entry = (const void*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) dynamic_entry(object, entry);
    }
    for (int table = 0; table < 2; table++)
        if (object->tables[table] == NULL) object->counts[table] = 0;
    return object->symbols != NULL && object->names != NULL;
}

bool object_contains(const struct object* object, uintptr_t address) {
    return address >= object->start && address < object->end;
}

bool object_is_ours(const struct object* object) {
    static const char own;
    return object_contains(object, (uintptr_t)&own);
}

static uint32_t gnu_hash_of(const char* name) {
    uint32_t hash = 5381;
    for (; *name != '\0'; name++) hash = hash * 33 + (uint8_t)*name;
    return hash;
}

// True for a version of the C library, such as GLIBC_2.17.
static bool is_of_c_library(const struct object* object, unsigned version) {
    const ElfW(Verdef)* definition = object->version_names;
    while (definition != NULL && definition->vd_ndx != version) {
        if (definition->vd_next == 0) return false;
        definition = (const void*)((const char*)definition + definition->vd_next);
    }
    if (definition == NULL) return false;
    const ElfW(Verdaux)* name = (const void*)((const char*)definition + definition->vd_aux);
    return strncmp(object->names + name->vda_name, "GLIBC_", 6) == 0;
}

enum which { DEFAULT_VERSION, ALSO_OF_C_LIBRARY };

static bool defines(const struct object* object, uint32_t at, const char* name, enum which which) {
    const ElfW(Sym)* symbol = &object->symbols[at];
    bool is_hidden = object->versions != NULL && (object->versions[at] & 0x8000) != 0;
    if (is_hidden && which == ALSO_OF_C_LIBRARY)
        is_hidden = !is_of_c_library(object, object->versions[at] & 0x7fff);
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return !is_hidden && (type <= STT_FUNC || type == STT_GNU_IFUNC) &&
           symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
           strcmp(object->names + symbol->st_name, name) == 0;
}

// 0: none, as the first symbol of a table has no name.
static uint32_t find_by_gnu_hash(const struct object* object, const char* name, enum which which) {
    const uint32_t* table = object->gnu_hash;
    if (table[0] == 0) return 0;
    const uint32_t* bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t* chain = bucket + table[0];
    uint32_t hash = gnu_hash_of(name);
    uint32_t at = bucket[hash % table[0]];
    if (at < table[1]) return 0;
    for (;; at++) {
        uint32_t link = chain[at - table[1]];
        if ((link | 1) == (hash | 1) && defines(object, at, name, which)) return at;
        if ((link & 1) != 0) return 0;
    }
}

static uint32_t find_in_all(const struct object* object, const char* name, enum which which) {
    for (uint32_t at = 1; at < object->hash[1]; at++)
        if (defines(object, at, name, which)) return at;
    return 0;
}

static uint32_t find(const struct object* object, const char* name, enum which which) {
    if (object->gnu_hash != NULL) return find_by_gnu_hash(object, name, which);
    return object->hash != NULL ? find_in_all(object, name, which) : 0;
}

uintptr_t object_definition(const struct object* object, const char* name) {
    const ElfW(Sym)* symbol = &object->symbols[find(object, name, DEFAULT_VERSION)];
    bool is_chosen = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
    return symbol->st_shndx == SHN_UNDEF || is_chosen ? 0 : object->base + symbol->st_value;
}

uintptr_t object_function(const struct object* object, const char* name) {
    uint32_t at = find(object, name, DEFAULT_VERSION);
    if (at == 0) at = find(object, name, ALSO_OF_C_LIBRARY);
    const ElfW(Sym)* symbol = &object->symbols[at];
    if (symbol->st_shndx == SHN_UNDEF) return 0;
    uintptr_t address = object->base + symbol->st_value;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC) return address;
    uintptr_t (*choose)(unsigned long processor_features, const void* more);
    *(void**)&choose = (void*)address;
    return choose(0, NULL);
}

bool object_defines(const struct object* object, const char* name) {
    return find(object, name, DEFAULT_VERSION) != 0;
}

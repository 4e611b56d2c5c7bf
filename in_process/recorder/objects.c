#include "objects.h"

#include "journal/ring.h"
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// The relocations of a word that the loader sets to the address of a function: in the table of
// functions that are only called, in that of other addresses, and elsewhere.
#if defined(__x86_64__)
enum { IN_CALLS = R_X86_64_JUMP_SLOT, IN_TABLE = R_X86_64_GLOB_DAT, IN_DATA = R_X86_64_64 };
#elif defined(__aarch64__)
enum { IN_CALLS = R_AARCH64_JUMP_SLOT, IN_TABLE = R_AARCH64_GLOB_DAT, IN_DATA = R_AARCH64_ABS64 };
#else // their numbers mean something else: no slot is found
enum { IN_CALLS = -1, IN_TABLE = -2, IN_DATA = -3 };
#endif

static uintptr_t page_of(uintptr_t address) {
    return address & ~(uintptr_t)(KL_PAGE_BYTES - 1);
}

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
            // The loader protects whole pages.
            object->relro = page_of(start);
            object->relro_end = page_of(end);
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

uintptr_t object_function(const struct object* object, const char* name) {
    const uint32_t* table = object->gnu_hash;
    if (table == NULL || table[0] == 0) return 0;
    const uint32_t* bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t* chain = bucket + table[0];
    uint32_t hash = gnu_hash_of(name);
    uint32_t at = bucket[hash % table[0]];
    if (at < table[1]) return 0;
    for (;; at++) {
        const ElfW(Sym)* symbol = &object->symbols[at];
        uint32_t link = chain[at - table[1]];
        bool is_hidden = object->versions != NULL && (object->versions[at] & 0x8000) != 0;
        bool is_function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
        if ((link | 1) == (hash | 1) && !is_hidden && is_function &&
            symbol->st_shndx != SHN_UNDEF && strcmp(object->names + symbol->st_name, name) == 0)
            return object->base + symbol->st_value;
        if ((link & 1) != 0) return 0;
    }
}

// Only the chains of the hash table contain this number.
uint32_t object_symbol_count(const struct object* object) {
    const uint32_t* table = object->gnu_hash;
    if (table == NULL) return 0;
    uint32_t bucket_count = table[0];
    uint32_t first = table[1];
    const uint32_t* bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t* chain = bucket + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++)
        if (bucket[i] > last) last = bucket[i];
    if (last < first) return first;
    while ((chain[last - first] & 1) == 0) last++;
    return last + 1;
}

// Entries without a symbol, such as those of a function that chooses an implementation (IFUNC), are
// of other types. An address in data may be at a distance from the symbol.
static bool sets_address(const ElfW(Rela) * entry) {
    uint32_t type = ELF64_R_TYPE(entry->r_info);
    if (type == (uint32_t)IN_DATA) return entry->r_addend == 0;
    return type == (uint32_t)IN_CALLS || type == (uint32_t)IN_TABLE;
}

bool object_next_slot(const struct object* object, struct slot* slot) {
    for (; slot->table < 2; slot->table++, slot->entry = 0) {
        while (slot->entry < object->counts[slot->table]) {
            const ElfW(Rela)* entry = &object->tables[slot->table][slot->entry++];
            if (!sets_address(entry)) continue;
            slot->symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
            slot->name = object->names + slot->symbol->st_name;
            slot->word = (atomic_word*)(object->base + entry->r_offset);
            slot->is_called = ELF64_R_TYPE(entry->r_info) == (uint32_t)IN_CALLS;
            return true;
        }
    }
    return false;
}

// While another thread relocates an object, its pages are writable; the loader protects them
// afterwards.
void object_set_slot(const struct object* object, const struct slot* slot, uintptr_t address) {
    int saved_errno = errno;
    uintptr_t at = (uintptr_t)slot->word;
    void* page = (void*)page_of(at);
    bool is_protected = at >= object->relro && at < object->relro_end &&
                        madvise(page, KL_PAGE_BYTES, MADV_POPULATE_WRITE) != 0;
    if (!is_protected || mprotect(page, KL_PAGE_BYTES, PROT_READ | PROT_WRITE) == 0) {
        atomic_set(slot->word, address);
        if (is_protected) mprotect(page, KL_PAGE_BYTES, PROT_READ);
    }
    errno = saved_errno;
}

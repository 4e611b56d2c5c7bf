#include "objects.h"

#include "journal/ring.h"
#include <elf.h>
#include <errno.h>
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
// afterwards. Returns false if the page cannot be written.
static bool page_open(const struct object* object, struct slot* slot, uintptr_t page) {
    if (page == slot->open) return true;
    object_close(slot);
    // The loader protects whole pages.
    bool is_protected = page >= page_of(object->relro) && page < page_of(object->relro_end) &&
                        madvise((void*)page, KL_PAGE_BYTES, MADV_POPULATE_WRITE) != 0;
    if (!is_protected) return true;
    if (mprotect((void*)page, KL_PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) return false;
    slot->open = page;
    return true;
}

void object_set_slot(const struct object* object, struct slot* slot, uintptr_t address) {
    int saved_errno = errno;
    if (page_open(object, slot, page_of((uintptr_t)slot->word))) atomic_set(slot->word, address);
    errno = saved_errno;
}

void object_close(struct slot* slot) {
    int saved_errno = errno;
    if (slot->open != 0) mprotect((void*)slot->open, KL_PAGE_BYTES, PROT_READ);
    slot->open = 0;
    errno = saved_errno;
}

struct search {
    struct object* object;
    uintptr_t address;
};

static int object_search(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct search* search = data;
    object_read(search->object, info);
    return object_contains(search->object, search->address);
}

bool object_find(struct object* object, uintptr_t address) {
    struct search search = {object, address};
    return dl_iterate_phdr(object_search, &search) != 0;
}

#include "hooks.h"

#include "base/atomic.h"
#include "base/attributes.h"
#include "clock.h"
#include "signals.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// A function of this library, and the one that the program calls without it. The stub is the
// address of the latter in a program that is not position-independent; 0: there is none.
struct hook {
    const char* name;
    uintptr_t ours;
    uintptr_t theirs;
    uintptr_t stub;
};

enum { HOOKS_MAX = 160, BUCKETS = 512, SECOND_LOOK_NS = 200000000 };
static struct hook hooks[HOOKS_MAX];
static uint16_t buckets[BUCKETS]; // 1 + index of a hook; 0: empty
static size_t hook_count;
static atomic_state active; // changed before the lock of the loader is taken, read under it

// What an object's dynamic section says. A count of 0: the object has no such table.
struct object {
    ElfW(Addr) base;
    uintptr_t start, end; // of its segments
    uintptr_t relro, relro_end;
    const ElfW(Sym) * symbols;
    const char* names;
    const uint32_t* gnu_hash;
    const uint16_t* versions;
    const ElfW(Rela) * tables[2]; // of functions that are bound at the first call, and others
    size_t counts[2];
};

static void object_segments(struct object* object, const struct dl_phdr_info* info) {
    object->start = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        uintptr_t end = start + segment->p_memsz;
        if (segment->p_type == PT_LOAD) {
            if (start < object->start) object->start = start;
            if (end > object->end) object->end = end;
        } else if (segment->p_type == PT_GNU_RELRO) {
            object->relro = start & ~(uintptr_t)4095;
            object->relro_end = end & ~(uintptr_t)4095;
        }
    }
}

// glibc adds the base to the addresses in the dynamic section, except in the kernel's object.
static const void* dynamic_pointer(const struct object* object, ElfW(Addr) value) {
    bool relocated = value >= object->start && value < object->end;
    return (const void*)(relocated ? value : object->base + value);
}

static void object_entry(struct object* object, const ElfW(Dyn) * entry) {
    ElfW(Addr) value = entry->d_un.d_ptr;
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

static bool object_read(struct object* object, const struct dl_phdr_info* info) {
    *object = (struct object){.base = info->dlpi_addr};
    object_segments(object, info);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn)* entry = (const void*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) object_entry(object, entry);
    }
    return object->symbols != NULL && object->names != NULL;
}

static bool object_is_ours(const struct object* object) {
    return (uintptr_t)hooks - object->start < object->end - object->start;
}

static uint32_t name_hash(const char* name) {
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash % BUCKETS;
}

// Most names are refused by their first letters: tables of C++ libraries have 100,000 entries.
static const struct hook* hook_of(const char* name) {
    bool is_operator = name[0] == '_' && name[1] == 'Z' && (name[2] == 'n' || name[2] == 'd');
    if (name[0] == '_' && !is_operator) return NULL;
    for (uint32_t at = name_hash(name); buckets[at] != 0; at = (at + 1) % BUCKETS) {
        const struct hook* hook = &hooks[buckets[at] - 1];
        if (strcmp(hook->name, name) == 0) return hook;
    }
    return NULL;
}

static uint32_t gnu_hash_of(const char* name) {
    uint32_t hash = 5381;
    for (; *name != '\0'; name++) hash = hash * 33 + (uint8_t)*name;
    return hash;
}

// The function that an object defines by this name, in its default version; 0: none.
static uintptr_t object_function(const struct object* object, const char* name) {
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

struct search {
    const char* name;
    uintptr_t found;
};

static int object_search(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct search* search = data;
    struct object object;
    if (!object_read(&object, info)) return 0;
    search->found = object_function(&object, search->name);
    return search->found != 0;
}

uintptr_t hooks_definition(const char* name, uintptr_t* stub) {
    void* found = dlsym(RTLD_DEFAULT, name);
    void* entry = NULL;
    Dl_info info;
    *stub = 0;
    if (found == NULL) return 0;
    bool known = dladdr1(found, &info, &entry, RTLD_DL_SYMENT) != 0 && entry != NULL;
    const ElfW(Sym)* symbol = entry;
    if (!known || symbol->st_shndx != SHN_UNDEF) return (uintptr_t)found;
    // A program that is not position-independent and takes a function's address.
    *stub = (uintptr_t)found;
    struct search search = {name, 0};
    dl_iterate_phdr(object_search, &search);
    return search.found;
}

static void hook_add(const char* name, uintptr_t ours) {
    uintptr_t stub;
    uintptr_t theirs = hooks_definition(name, &stub);
    if (theirs == 0 || theirs == ours || hook_count == HOOKS_MAX) return;
    hooks[hook_count] = (struct hook){name, ours, theirs, stub};
    uint32_t at = name_hash(name);
    while (buckets[at] != 0) at = (at + 1) % BUCKETS;
    buckets[at] = (uint16_t)++hook_count;
}

// The number of symbols, which only the chains of the hash table contain.
static uint32_t symbols_count(const uint32_t* hash) {
    uint32_t bucket_count = hash[0];
    uint32_t first = hash[1];
    const uint32_t* bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t* chain = bucket + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++)
        if (bucket[i] > last) last = bucket[i];
    if (last < first) return first;
    while ((chain[last - first] & 1) == 0) last++;
    return last + 1;
}

static int hooks_of_library(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct object* object = data;
    return object_read(object, info) && object_is_ours(object);
}

// The functions that this library exports are those that it replaces, except its own interface.
void hooks_find(void) {
    struct object object;
    if (hook_count != 0 || dl_iterate_phdr(hooks_of_library, &object) == 0) return;
    uint32_t count = symbols_count(object.gnu_hash);
    for (uint32_t i = 1; i < count; i++) {
        const ElfW(Sym)* symbol = &object.symbols[i];
        const char* name = object.names + symbol->st_name;
        bool is_function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != 0;
        if (is_function && strncmp(name, "kl_", 3) != 0)
            hook_add(name, object.base + symbol->st_value);
    }
}

// Changes an address in an object. While another thread relocates an object, its pages are
// writable; afterwards the loader protects them.
static void slot_set(const struct object* object, atomic_word* slot, uintptr_t value) {
    void* page = (void*)((uintptr_t)slot & ~(uintptr_t)4095);
    bool guarded = (uintptr_t)slot >= object->relro && (uintptr_t)slot < object->relro_end &&
                   madvise(page, 4096, MADV_POPULATE_WRITE) != 0;
    if (guarded && mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0) return;
    atomic_set_release(slot, value);
    if (guarded) mprotect(page, 4096, PROT_READ);
}

struct change {
    bool set;
    size_t count;
    unsigned long long loads; // objects so far, as the loader counts them
};

static bool object_contains(const struct object* object, uintptr_t address) {
    return address >= object->start && address < object->end;
}

// What the loader put into the slot: the stub, except into slots that are only called, and into
// those of the stub itself.
static uintptr_t slot_before(const struct object* object, const struct hook* hook, uint32_t type) {
    bool is_stub = hook->stub != 0 && type != R_X86_64_JUMP_SLOT;
    return is_stub && !object_contains(object, hook->stub) ? hook->stub : hook->theirs;
}

static void slot_change(const struct object* object, const ElfW(Rela) * entry,
                        struct change* change) {
    uint32_t type = ELF64_R_TYPE(entry->r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) return;
    const ElfW(Sym)* symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
    const struct hook* hook = hook_of(object->names + symbol->st_name);
    if (hook == NULL || (type == R_X86_64_64 && entry->r_addend != 0)) return;
    atomic_word* slot = (atomic_word*)(object->base + entry->r_offset);
    uintptr_t now = atomic_get_acquire(slot);
    if (!change->set) {
        if (now == hook->ours) slot_set(object, slot, slot_before(object, hook, type));
        if (now == hook->ours) change->count++;
        return;
    }
    // The slot of a function that was not called yet has an address in its own object.
    bool unbound =
        type == R_X86_64_JUMP_SLOT && symbol->st_shndx == SHN_UNDEF && object_contains(object, now);
    bool theirs = now == hook->theirs || (hook->stub != 0 && now == hook->stub);
    if (theirs || unbound) slot_set(object, slot, hook->ours);
    if (theirs || unbound || now == hook->ours) change->count++;
}

static int object_change(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct change* change = data;
    struct object object;
    // Another thread may have begun to clear the hooks since this one decided to set them.
    if (change->set && atomic_get_acquire(&active) == 0) return 1;
    change->loads = info->dlpi_adds;
    if (!object_read(&object, info) || object_is_ours(&object)) return 0;
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; object.tables[table] != NULL && i < object.counts[table]; i++)
            slot_change(&object, &object.tables[table][i], change);
    return 0;
}

static _Atomic uint64_t known_loads;
static _Atomic uint64_t renew_at; // a second look: an object is listed before it is relocated
static atomic_state renewing;
static atomic_state forks; // threads in fork

static size_t hooks_enter(void) {
    struct change change = {.set = true};
    if (dl_iterate_phdr(object_change, &change) == 0) known_loads = change.loads;
    return change.count;
}

size_t hooks_set(void) {
    atomic_set_ordered(&active, 1);
    return hooks_enter();
}

size_t hooks_clear(void) {
    struct change change = {.set = false};
    atomic_set_ordered(&active, 0);
    dl_iterate_phdr(object_change, &change);
    return change.count;
}

static int loads_read(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    *(uint64_t*)data = info->dlpi_adds;
    return 1;
}

// No signal handler runs meanwhile: if it forked, it would wait for this thread.
void hooks_renew(void) {
    uint64_t loads = 0;
    if (atomic_get(&active) == 0) return;
    sigset_t before = signals_block();
    if (atomic_swap_ordered(&renewing, 1) == 0) {
        bool forked = atomic_get_ordered(&forks) != 0;
        if (!forked) dl_iterate_phdr(loads_read, &loads);
        uint64_t now = clock_monotonic();
        bool again = renew_at != 0 && now >= renew_at;
        if (!forked && (loads != known_loads || again)) {
            renew_at = loads != known_loads ? now + SECOND_LOOK_NS : 0;
            hooks_enter();
        }
        atomic_set_release(&renewing, 0);
    }
    signals_restore(before);
}

// A child must not be forked while another thread has the lock of the loader in hooks_renew: nobody
// would release it in the child.
static void fork_begins(void) {
    atomic_add_ordered(&forks, 1);
    while (atomic_get_ordered(&renewing) != 0) sched_yield();
}

static void fork_ended(void) {
    atomic_sub_ordered(&forks, 1);
}

static void fork_ended_in_child(void) {
    atomic_set_ordered(&forks, 0); // the other threads do not exist
}

void hooks_prepare_fork(void) {
    static bool prepared;
    if (!prepared) prepared = pthread_atfork(fork_begins, fork_ended, fork_ended_in_child) == 0;
}

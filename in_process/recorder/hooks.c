#include "hooks.h"

#include "base/atomic.h"
#include "clock.h"
#include "objects.h"
#include "os/process.h"
#include "signals.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

static int program_read(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    object_read(data, info);
    return 1; // the first object is the program
}

uintptr_t hooks_definition(const char* name, uintptr_t* stub) {
    uintptr_t found = (uintptr_t)dlsym(RTLD_DEFAULT, name);
    struct object program = {0};
    *stub = 0;
    if (found != 0) dl_iterate_phdr(program_read, &program);
    if (!object_contains(&program, found) || object_definition(&program, name) != 0) return found;
    // A program that is not position-independent and takes a function's address.
    *stub = found;
    return (uintptr_t)os_symbol(name);
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

static int hooks_of_library(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct object* object = data;
    return object_read(object, info) && object_is_ours(object);
}

// The functions that this library exports are those that it replaces, except its own interface.
void hooks_find(void) {
    struct object object;
    if (hook_count != 0 || dl_iterate_phdr(hooks_of_library, &object) == 0) return;
    uint32_t count = object_symbol_count(&object);
    for (uint32_t i = 1; i < count; i++) {
        const ElfW(Sym)* symbol = &object.symbols[i];
        const char* name = object.names + symbol->st_name;
        bool is_function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != 0;
        if (is_function && strncmp(name, "kl_", 3) != 0)
            hook_add(name, object.base + symbol->st_value);
    }
}

struct change {
    bool set;
    size_t count;
    unsigned long long loads; // objects so far, as the loader counts them
};

// What the loader put into the slot: the stub, except into slots that are only called, and into
// those of the stub itself.
static uintptr_t slot_before(const struct object* object, const struct hook* hook,
                             const struct slot* slot) {
    bool is_stub = hook->stub != 0 && !slot->is_called;
    return is_stub && !object_contains(object, hook->stub) ? hook->stub : hook->theirs;
}

static void slot_change(const struct object* object, struct slot* slot, struct change* change) {
    const struct hook* hook = hook_of(slot->name);
    if (hook == NULL) return;
    uintptr_t now = atomic_get(slot->word);
    if (!change->set) {
        if (now == hook->ours) object_set_slot(object, slot, slot_before(object, hook, slot));
        if (now == hook->ours) change->count++;
        return;
    }
    // The slot of a function that was not called yet has an address in its own object.
    bool unbound =
        slot->is_called && slot->symbol->st_shndx == SHN_UNDEF && object_contains(object, now);
    bool theirs = now == hook->theirs || (hook->stub != 0 && now == hook->stub);
    if (theirs || unbound) object_set_slot(object, slot, hook->ours);
    if (theirs || unbound || now == hook->ours) change->count++;
}

static int object_change(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct change* change = data;
    struct object object;
    struct slot slot = {0};
    // Another thread may have begun to clear the hooks since this one decided to set them.
    if (change->set && atomic_get_acquire(&active) == 0) return 1;
    change->loads = info->dlpi_adds;
    if (!object_read(&object, info) || object_is_ours(&object)) return 0;
    while (object_next_slot(&object, &slot)) slot_change(&object, &slot, change);
    object_close(&slot);
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

void hooks_clear(void) {
    struct change change = {.set = false};
    atomic_set_ordered(&active, 0);
    dl_iterate_phdr(object_change, &change);
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
    signal_set before = signals_block();
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

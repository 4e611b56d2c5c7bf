// libkeel_bridge.so: gives a whole program the allocator that KEEL_BRIDGE names, by LD_PRELOAD.
//
//   KEEL_BRIDGE=peer:FILE             a library with a table (lab/peers)
//   KEEL_BRIDGE=prefix:PREFIX:FILE    a library with functions PREFIX_malloc and so on
//   KEEL_BRIDGE=next                  the malloc that the program would have without the bridge
//   KEEL_BRIDGE_TIMES=FILE            also times each call (timing.h) and writes the result when
//                                     the program exits
//   KEEL_BRIDGE_SHARED=FILE           counts the calls of several processes together in this file;
//                                     each then writes the result so far when it exits
//
// So every allocator is called in the same way, by one jump through a pointer, whether its library
// exports malloc or not.
//
//   malloc ──▶ active.malloc ──▶ early_malloc       until the constructor has loaded the library
//                            └─▶ the allocator's    afterwards
//
// What is allocated before and during the load lies in `early` and is never reused. The library is
// opened with RTLD_DEEPBIND: its own calls of malloc go to the C library's, so that an allocator
// that allocates its own data with malloc does not call itself.
#include "bridge.h"

#include "timing.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { EARLY_BYTES = 4 << 20, EARLY_HEADER = 16, NAME_BYTES = 128 };

static alignas(4096) char early[EARLY_BYTES];
static size_t early_used;

static _Noreturn void give_up(const char* what, const char* detail) {
    char text[512];
    int length = snprintf(text, sizeof text, "keel bridge: %s%s\n", what, detail);
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0) _exit(126);
    _exit(126);
}

// Only one thread exists until the constructor has run.
static void* early_aligned(size_t alignment, size_t bytes) {
    if (alignment < EARLY_HEADER) alignment = EARLY_HEADER;
    size_t at = (early_used + EARLY_HEADER + alignment - 1) / alignment * alignment;
    if (bytes > EARLY_BYTES || at > EARLY_BYTES - bytes)
        give_up("too much memory is used early", "");
    early_used = at + bytes;
    memcpy(early + at - sizeof bytes, &bytes, sizeof bytes);
    return early + at;
}
static void* early_malloc(size_t bytes) {
    return early_aligned(EARLY_HEADER, bytes);
}
static void* early_calloc(size_t count, size_t size) {
    size_t bytes;
    // The memory is zero and never reused.
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : early_malloc(bytes);
}
static size_t early_size(const void* block) {
    size_t bytes;
    memcpy(&bytes, (const char*)block - sizeof bytes, sizeof bytes);
    return bytes;
}
static bool is_early(const void* block) {
    return (uintptr_t)block - (uintptr_t)early < EARLY_BYTES;
}
static void early_free(void* block) {
    (void)block;
}

static struct bridge_table active = {
    .malloc = early_malloc, .free = early_free, .calloc = early_calloc, .aligned = early_aligned};

// --- allocators that must know each thread ---

static struct bridge_table inner;
static pthread_key_t thread_key;
static _Thread_local bool thread_known __attribute__((tls_model("initial-exec")));

static void thread_ended(void* unused) {
    (void)unused;
    thread_known = false; // a later destructor may allocate: then the thread begins again
    if (inner.thread_exit != NULL) inner.thread_exit();
}
static void know_thread(void) {
    if (thread_known) return;
    thread_known = true;
    inner.thread_init();
    pthread_setspecific(thread_key, &inner);
}
static void* knowing_malloc(size_t bytes) {
    know_thread();
    return inner.malloc(bytes);
}
static void knowing_free(void* block) {
    know_thread();
    inner.free(block);
}
static void* knowing_calloc(size_t count, size_t size) {
    know_thread();
    return inner.calloc(count, size);
}
static void* knowing_realloc(void* block, size_t bytes) {
    know_thread();
    return inner.realloc(block, bytes);
}
static void* knowing_aligned(size_t alignment, size_t bytes) {
    know_thread();
    return inner.aligned(alignment, bytes);
}

static void knowing_free_sized(void* block, size_t bytes) {
    know_thread();
    inner.free_sized(block, bytes);
}

// --- timing ---

static struct bridge_table untimed;
static const char* times_file;
static pid_t timed_process; // its children do not write the file
static bool times_are_shared;

static void* timed_malloc(size_t bytes) {
    uint64_t begun = timing_begin();
    void* block = untimed.malloc(bytes);
    timing_end(begun);
    return block;
}
static void timed_free(void* block) {
    uint64_t begun = timing_begin();
    untimed.free(block);
    timing_end(begun);
}
static void* timed_calloc(size_t count, size_t size) {
    uint64_t begun = timing_begin();
    void* block = untimed.calloc(count, size);
    timing_end(begun);
    return block;
}
static void* timed_realloc(void* old, size_t bytes) {
    uint64_t begun = timing_begin();
    void* block = untimed.realloc(old, bytes);
    timing_end(begun);
    return block;
}
static void* timed_aligned(size_t alignment, size_t bytes) {
    uint64_t begun = timing_begin();
    void* block = untimed.aligned(alignment, bytes);
    timing_end(begun);
    return block;
}
static void timed_free_sized(void* block, size_t bytes) {
    uint64_t begun = timing_begin();
    untimed.free_sized(block, bytes);
    timing_end(begun);
}

static void use_timed(struct bridge_table* chosen) {
    const char* shared = getenv("KEEL_BRIDGE_SHARED");
    times_are_shared = shared != NULL;
    if (times_are_shared && !timing_share(shared)) {
        // A process with another root folder or user: its calls are not counted.
        times_file = NULL;
        return;
    }
    untimed = *chosen;
    chosen->malloc = timed_malloc;
    chosen->free = timed_free;
    chosen->calloc = timed_calloc;
    chosen->realloc = timed_realloc;
    chosen->aligned = timed_aligned;
    if (chosen->free_sized != NULL) chosen->free_sized = timed_free_sized;
    timed_process = getpid();
    timing_start();
}

// The program calls this before the part that counts, while it has one thread.
EXPORTED void keel_bridge_begin(void) {
    if (times_file != NULL) timing_start();
}
__attribute__((destructor)) static void finish(void) {
    if (times_file == NULL || (!times_are_shared && getpid() != timed_process)) return;
    timing_write(times_file);
}

static void use(const struct bridge_table* table) {
    inner = *table;
    struct bridge_table chosen = inner;
    if (inner.thread_init != NULL) {
        if (pthread_key_create(&thread_key, thread_ended) != 0) give_up("no key for threads", "");
        chosen.malloc = knowing_malloc;
        chosen.free = knowing_free;
        chosen.calloc = knowing_calloc;
        chosen.realloc = knowing_realloc;
        chosen.aligned = knowing_aligned;
        if (inner.free_sized != NULL) chosen.free_sized = knowing_free_sized;
    }
    times_file = getenv("KEEL_BRIDGE_TIMES");
    if (times_file != NULL) use_timed(&chosen);
    active = chosen;
}

// --- loading ---

// RTLD_DEEPBIND binds the library's `environ` to the C library's variable. If the program contains
// a copy of this variable, nothing has set the original, and mimalloc would see no settings.
static void set_environment(void) {
    void* libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (libc == NULL) return;
    char*** place = dlsym(libc, "environ");
    if (place != NULL && *place == NULL) *place = environ;
    // The reference stays: the C library is never unloaded.
}

static void* open_library(const char* file) {
    set_environment();
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == NULL) give_up("the allocator cannot be loaded: ", dlerror());
    return library;
}

// The function PREFIX + one of two names, or NULL.
static void* find(void* library, const char* prefix, const char* name, const char* other) {
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    void* function = dlsym(library, text);
    if (function != NULL || other == NULL) return function;
    snprintf(text, sizeof text, "%s%s", prefix, other);
    return dlsym(library, text);
}
// Stores the function's address; ISO C has no cast from an object pointer.
static bool store(void* place, void* function) {
    memcpy(place, &function, sizeof function);
    return function != NULL;
}

static void use_functions(void* library, const char* prefix) {
    struct bridge_table table = {0};
    store(&table.usable_size, find(library, prefix, "usable_size", "malloc_usable_size"));
    // A library without free_sized has at least the operator, if it replaces malloc.
    const char* other = prefix[0] == 0 ? "_ZdlPvm" : NULL;
    store(&table.free_sized, find(library, prefix, "free_sized", other));
    if (!store(&table.malloc, find(library, prefix, "malloc", NULL)) ||
        !store(&table.free, find(library, prefix, "free", NULL)) ||
        !store(&table.calloc, find(library, prefix, "calloc", NULL)) ||
        !store(&table.realloc, find(library, prefix, "realloc", NULL)) ||
        !store(&table.aligned, find(library, prefix, "memalign", "aligned_alloc")))
        give_up("the library lacks a function with this prefix: ", prefix);
    use(&table);
}

static void use_prefixed(const char* target) {
    char prefix[NAME_BYTES / 2];
    const char* colon = strchr(target, ':');
    if (colon == NULL || (size_t)(colon - target) >= sizeof prefix)
        give_up("KEEL_BRIDGE has no prefix and file: ", target);
    memcpy(prefix, target, (size_t)(colon - target));
    prefix[colon - target] = 0;
    use_functions(open_library(colon + 1), prefix);
}

static void use_peer(const char* file) {
    const struct bridge_table* table = dlsym(open_library(file), "keel_peer");
    struct bridge_table copy = {0};
    if (table == NULL || table->abi != BRIDGE_ABI) give_up("no table of this version in ", file);
    if (table->init != NULL && table->init() != 0) give_up("the allocator cannot start: ", file);
    // Older libraries end before the hints.
    memcpy(&copy, table,
           table->has_hints ? sizeof copy : offsetof(struct bridge_table, free_sized));
    use(&copy);
}

__attribute__((constructor(101))) static void load(void) {
    const char* target = getenv("KEEL_BRIDGE");
    if (target == NULL) give_up("KEEL_BRIDGE is not set", "");
    if (strncmp(target, "peer:", 5) == 0)
        use_peer(target + 5);
    else if (strncmp(target, "prefix:", 7) == 0)
        use_prefixed(target + 7);
    else if (strcmp(target, "next") == 0)
        use_functions(RTLD_NEXT, "");
    else
        give_up("unknown KEEL_BRIDGE: ", target);
}

// --- the program's side ---

EXPORTED void* malloc(size_t bytes) {
    return active.malloc(bytes);
}
EXPORTED void free(void* block) {
    if (block == NULL || is_early(block)) return;
    active.free(block);
}
EXPORTED void free_sized(void* block, size_t bytes) {
    if (block == NULL || is_early(block)) return;
    if (active.free_sized != NULL)
        active.free_sized(block, bytes);
    else
        active.free(block);
}
EXPORTED void* calloc(size_t count, size_t size) {
    return active.calloc(count, size);
}
EXPORTED void* realloc(void* block, size_t bytes) {
    if (block == NULL) return active.malloc(bytes);
    if (!is_early(block)) return active.realloc(block, bytes);
    size_t kept = early_size(block);
    void* moved = active.malloc(bytes);
    if (moved != NULL) memcpy(moved, block, kept < bytes ? kept : bytes);
    return moved;
}
EXPORTED void* reallocarray(void* block, size_t count, size_t size) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes)) return realloc(block, bytes);
    errno = ENOMEM;
    return NULL;
}
EXPORTED void* memalign(size_t alignment, size_t bytes) {
    return active.aligned(alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes);
}
EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}
EXPORTED int posix_memalign(void** place, size_t alignment, size_t bytes) {
    if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
    void* block = active.aligned(alignment, bytes);
    if (block == NULL) return ENOMEM;
    *place = block;
    return 0;
}
EXPORTED void* valloc(size_t bytes) {
    return active.aligned((size_t)sysconf(_SC_PAGESIZE), bytes);
}
EXPORTED void* pvalloc(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return active.aligned(page, (bytes + page - 1) / page * page);
}
EXPORTED size_t malloc_usable_size(void* block) {
    if (block == NULL) return 0;
    if (is_early(block)) return early_size(block);
    // 0 promises nothing beyond the request; the program cannot ask for more.
    return active.usable_size != NULL ? active.usable_size(block) : 0;
}

// malloc on macOS, in two ways at once:
//
// - A table in the section __DATA,__interpose: where the loader takes in this library, it lets all
//   other images call these functions instead of the C library's. This image is left out: `free`
//   below is the C library's.
// - A zone, a table of functions that the C library registers. Keel's becomes the first one, from
//   which the C library's own malloc, malloc_zone_malloc(malloc_default_zone()) and CoreFoundation
//   allocate. Through it, `free` of the C library finds the owner of a block.
//
// The zones that were there before keep their blocks, and blocks that were allocated before Keel
// was loaded: Keel passes these on. Other zones that the program creates are not Keel's.
//
// What defeats it: a program with the hardened runtime, for which the loader ignores
// DYLD_INSERT_LIBRARIES.
#include "allocator/api/entry.h"
#include "allocator/api/process.h"
#include "keel/keel.h"
#include "keel/statistics.h"
#include "os/lock.h"
#include <malloc/malloc.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 16384, PROMOTIONS = 100 };

// --- Blocks of others ----------------------------------------------------------------------------

static bool free_elsewhere(void* block) {
    if (malloc_size(block) == 0) return false;
    free(block);
    return true;
}

// The loader may call replacements before the constructor below.
static bool passes_on;
KEEL_INLINE void pass_on_foreign_blocks(void) {
    if (KEEL_LIKELY(passes_on)) return;
    free_set_elsewhere(free_elsewhere);
    passes_on = true;
}

static bool is_foreign(const void* block) {
    return block != NULL && block_usable_bytes(block) == 0 && malloc_size(block) != 0;
}

// --- Replacements --------------------------------------------------------------------------------

static void* replace_malloc(size_t size) {
    return entry_allocate(size);
}
static void* replace_calloc(size_t count, size_t size) {
    return entry_zeroed(entry_product(count, size));
}
static void replace_free(void* block) {
    pass_on_foreign_blocks();
    entry_free_kind(block, BLOCK_MALLOC);
}
static void* replace_realloc(void* block, size_t size) {
    if (is_foreign(block)) return realloc(block, size);
    return entry_realloc(block, size);
}
static void* replace_reallocf(void* block, size_t size) {
    if (is_foreign(block)) return reallocf(block, size);
    return kl_reallocf(block, size);
}
static void* replace_aligned_alloc(size_t alignment, size_t size) {
    return entry_memalign(size, alignment);
}
static int replace_posix_memalign(void** block, size_t alignment, size_t size) {
    return entry_posix_memalign(block, alignment, size);
}
static void* replace_valloc(size_t size) {
    return entry_valloc(size);
}
static size_t replace_malloc_size(const void* block) {
    size_t bytes = block_usable_bytes(block);
    return bytes != 0 ? bytes : malloc_size(block);
}
static size_t replace_malloc_good_size(size_t size) {
    return kl_good_size(size);
}

#if !defined(KEEL_INTERPOSE_SECTION) // the tests on Linux have another one
#define KEEL_INTERPOSE_SECTION "__DATA,__interpose"
#endif
struct replacement {
    const void* by;
    const void* function;
};
#define REPLACE(name)                                                                              \
    { (const void*)replace_##name, (const void*)name }
__attribute__((used, section(KEEL_INTERPOSE_SECTION))) static const struct replacement table[] = {
    REPLACE(malloc),      REPLACE(calloc),           REPLACE(free),           REPLACE(realloc),
    REPLACE(reallocf),    REPLACE(aligned_alloc),    REPLACE(posix_memalign), REPLACE(valloc),
    REPLACE(malloc_size), REPLACE(malloc_good_size),
};

// --- The zone ------------------------------------------------------------------------------------

// The C library asks for any address: 0 if it is in no block of Keel.
static size_t zone_size(malloc_zone_t* zone, const void* block) {
    (void)zone;
    return block_usable_bytes(block);
}
static void* zone_malloc(malloc_zone_t* zone, size_t size) {
    (void)zone;
    return replace_malloc(size);
}
static void* zone_calloc(malloc_zone_t* zone, size_t count, size_t size) {
    (void)zone;
    return replace_calloc(count, size);
}
static void* zone_valloc(malloc_zone_t* zone, size_t size) {
    (void)zone;
    return replace_valloc(size);
}
static void zone_free(malloc_zone_t* zone, void* block) {
    (void)zone;
    replace_free(block);
}
static void* zone_realloc(malloc_zone_t* zone, void* block, size_t size) {
    (void)zone;
    return replace_realloc(block, size);
}
static void* zone_memalign(malloc_zone_t* zone, size_t alignment, size_t size) {
    (void)zone;
    return replace_aligned_alloc(alignment, size);
}
static void zone_free_definite_size(malloc_zone_t* zone, void* block, size_t size) {
    (void)zone;
    pass_on_foreign_blocks();
    entry_free_sized_kind(block, size, 1, false, BLOCK_MALLOC);
}
// The program's malloc uses it until the process ends.
static void zone_destroy(malloc_zone_t* zone) {
    (void)zone;
}

static uint64_t occupied_bytes(void) {
    struct kl_process process;
    kl_process_info(&process);
    return process.held_bytes + process.unused_bytes;
}
static size_t zone_pressure_relief(malloc_zone_t* zone, size_t goal) {
    (void)zone, (void)goal;
    uint64_t before = occupied_bytes();
    kl_collect(true);
    uint64_t after = occupied_bytes();
    return before > after ? (size_t)(before - after) : 0;
}

// --- Introspection -------------------------------------------------------------------------------

// Tools call it for a process that they have stopped, and would have to read the free lists of all
// threads there. A refusal is better than a list in which no block is found.
static kern_return_t list_blocks(task_t task, void* argument, unsigned types, vm_address_t zone,
                                 memory_reader_t reader, vm_range_recorder_t recorder) {
    (void)task, (void)argument, (void)types, (void)zone, (void)reader, (void)recorder;
    return KERN_NOT_SUPPORTED;
}
static size_t good_size_of(malloc_zone_t* zone, size_t size) {
    (void)zone;
    return kl_good_size(size);
}
static boolean_t check(malloc_zone_t* zone) {
    (void)zone;
    (void)kl_check_all(); // ends the process at a fault
    return 1;
}
static void print(malloc_zone_t* zone, boolean_t verbose) {
    (void)zone, (void)verbose;
    kl_stats_print(NULL, NULL);
}
static void log_address(malloc_zone_t* zone, void* address) {
    (void)zone, (void)address;
}
static bool add_size(const struct kl_size_stats* size, void* argument) {
    malloc_statistics_t* sum = argument;
    sum->blocks_in_use += (unsigned)size->used;
    sum->size_in_use += size->used_bytes;
    sum->size_allocated += size->reserved_bytes;
    return true;
}
// The most bytes of the past are not known, only those of the present.
static void statistics(malloc_zone_t* zone, malloc_statistics_t* sum) {
    (void)zone;
    *sum = (malloc_statistics_t){0};
    (void)kl_stats_visit(add_size, sum);
    sum->max_size_in_use = sum->size_in_use;
}

// A fork of the C library calls these between the handlers of pthread_atfork, of which Keel has
// some, too. Those repair Keel's data in the child.
static void lock(malloc_zone_t* zone) {
    (void)zone;
    process_before_fork();
}
static void unlock(malloc_zone_t* zone) {
    (void)zone;
    process_after_fork();
}
static boolean_t is_locked(malloc_zone_t* zone) {
    (void)zone;
    return os_lock_holds_all;
}

// --- Registration --------------------------------------------------------------------------------

static struct malloc_introspection_t introspection = {
    .enumerator = list_blocks,
    .good_size = good_size_of,
    .check = check,
    .print = print,
    .log = log_address,
    .force_lock = lock,
    .force_unlock = unlock,
    .statistics = statistics,
    .zone_locked = is_locked,
    .reinit_lock = unlock,
};

// malloc_set_zone_name makes the pages of a zone read-only: nothing else may be there.
// claimed_address is NULL, which stands for "any address may be in this zone".
static KEEL_ALIGNED(PAGE_BYTES) union {
    malloc_zone_t zone;
    char pages[PAGE_BYTES];
} keel = {.zone = {
              .size = zone_size,
              .malloc = zone_malloc,
              .calloc = zone_calloc,
              .valloc = zone_valloc,
              .free = zone_free,
              .realloc = zone_realloc,
              .destroy = zone_destroy,
              .zone_name = "KeelZone",
              .introspect = &introspection,
              .version = 10,
              .memalign = zone_memalign,
              .free_definite_size = zone_free_definite_size,
              .pressure_relief = zone_pressure_relief,
          }};

// malloc_default_zone returns a zone that stands for the first one of this list.
static malloc_zone_t* first_zone(void) {
    vm_address_t* zones = NULL;
    unsigned count = 0;
    if (malloc_get_all_zones(0, NULL, &zones, &count) != KERN_SUCCESS || count == 0) return NULL;
    return (malloc_zone_t*)zones[0];
}

static void move_to_end(malloc_zone_t* zone) {
    malloc_zone_unregister(zone); // the last zone takes its place
    malloc_zone_register(zone);
}

// Keel's zone takes the first place, unless another library has done so. The purgeable zone must
// exist before, because it is made for the system's first zone, and stay behind that zone, whose
// small blocks it would claim. Other threads may register zones meanwhile, hence the attempts.
static void become_first(void) {
    malloc_zone_t* usual = first_zone();
    if (usual == NULL || usual->zone_name == NULL ||
        strcmp(usual->zone_name, "DefaultMallocZone") != 0)
        return;
    malloc_zone_t* purgeable = malloc_default_purgeable_zone();
    malloc_zone_register(&keel.zone);
    for (unsigned i = 0; i < PROMOTIONS && first_zone() != &keel.zone; i++) {
        move_to_end(usual);
        if (purgeable != NULL) move_to_end(purgeable);
    }
}

__attribute__((constructor(101))) static void zone_start(void) {
    pass_on_foreign_blocks();
    process_enter();
    become_first();
}

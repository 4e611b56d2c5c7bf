// What override/macos/zone.c uses of macOS' <malloc/malloc.h>, for Linux. system.c is a model of
// the C library's side: a list of zones. `free` and `realloc` of that file become the model's.
#ifndef KEEL_TESTS_MACOS_MALLOC_H
#define KEEL_TESTS_MACOS_MALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef int boolean_t, kern_return_t;
typedef unsigned task_t;
typedef uintptr_t vm_address_t;
typedef size_t vm_size_t;
typedef struct {
    vm_address_t address;
    vm_size_t size;
} vm_range_t;
enum { KERN_SUCCESS = 0, KERN_NOT_SUPPORTED = 46 };

typedef struct malloc_statistics_t {
    unsigned blocks_in_use;
    size_t size_in_use, max_size_in_use, size_allocated;
} malloc_statistics_t;
typedef kern_return_t memory_reader_t(task_t task, vm_address_t at, vm_size_t bytes, void** local);
typedef void vm_range_recorder_t(task_t task, void* argument, unsigned type, vm_range_t* ranges,
                                 unsigned count);

typedef struct _malloc_zone_t {
    void *reserved1, *reserved2;
    size_t (*size)(struct _malloc_zone_t* zone, const void* block);
    void* (*malloc)(struct _malloc_zone_t* zone, size_t size);
    void* (*calloc)(struct _malloc_zone_t* zone, size_t count, size_t size);
    void* (*valloc)(struct _malloc_zone_t* zone, size_t size);
    void (*free)(struct _malloc_zone_t* zone, void* block);
    void* (*realloc)(struct _malloc_zone_t* zone, void* block, size_t size);
    void (*destroy)(struct _malloc_zone_t* zone);
    const char* zone_name;
    unsigned (*batch_malloc)(struct _malloc_zone_t* zone, size_t size, void** blocks, unsigned n);
    void (*batch_free)(struct _malloc_zone_t* zone, void** blocks, unsigned count);
    struct malloc_introspection_t* introspect;
    unsigned version;
    void* (*memalign)(struct _malloc_zone_t* zone, size_t alignment, size_t size);
    void (*free_definite_size)(struct _malloc_zone_t* zone, void* block, size_t size);
    size_t (*pressure_relief)(struct _malloc_zone_t* zone, size_t goal);
    boolean_t (*claimed_address)(struct _malloc_zone_t* zone, void* address);
} malloc_zone_t;

typedef struct malloc_introspection_t {
    kern_return_t (*enumerator)(task_t task, void* argument, unsigned types, vm_address_t zone,
                                memory_reader_t reader, vm_range_recorder_t recorder);
    size_t (*good_size)(malloc_zone_t* zone, size_t size);
    boolean_t (*check)(malloc_zone_t* zone);
    void (*print)(malloc_zone_t* zone, boolean_t verbose);
    void (*log)(malloc_zone_t* zone, void* address);
    void (*force_lock)(malloc_zone_t* zone);
    void (*force_unlock)(malloc_zone_t* zone);
    void (*statistics)(malloc_zone_t* zone, malloc_statistics_t* sum);
    boolean_t (*zone_locked)(malloc_zone_t* zone);
    void (*reinit_lock)(malloc_zone_t* zone);
} malloc_introspection_t;

kern_return_t malloc_get_all_zones(task_t task, memory_reader_t reader, vm_address_t** zones,
                                   unsigned* count);
malloc_zone_t* malloc_default_purgeable_zone(void);
void malloc_zone_register(malloc_zone_t* zone);
void malloc_zone_unregister(malloc_zone_t* zone);
size_t malloc_size(const void* block);
size_t malloc_good_size(size_t size);
void* reallocf(void* block, size_t size);

// The C library's functions look for the zone of the block.
void system_free(void* block);
void* system_realloc(void* block, size_t size);
#define free(block) system_free(block)
#define realloc(block, size) system_realloc(block, size)

// Blocks of the system's own zone that were freed; live blocks of it.
extern size_t system_frees, system_live;

#endif

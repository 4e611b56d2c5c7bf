// A model of macOS' side of zones (include/malloc/malloc.h): a list, the first zone of which serves
// malloc. The last zone takes the place of one that is unregistered. A fork locks every zone
// between the handlers of pthread_atfork.
#include <malloc/malloc.h>
#undef free
#undef realloc
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { ZONES = 8, BLOCKS = 256 };
static malloc_zone_t* zones[ZONES];
static unsigned zone_count;
static void* own_blocks[BLOCKS];
size_t system_frees, system_live;

// ---- the system's own zone ----

static void** place_of(const void* block) {
    for (unsigned i = 0; i < BLOCKS; i++)
        if (own_blocks[i] == block) return &own_blocks[i];
    return NULL;
}
static size_t own_size(malloc_zone_t* zone, const void* block) {
    (void)zone;
    return block != NULL && place_of(block) != NULL ? malloc_usable_size((void*)block) : 0;
}
static void* own_malloc(malloc_zone_t* zone, size_t size) {
    (void)zone;
    void** place = place_of(NULL);
    if (place == NULL) abort();
    system_live++;
    return *place = malloc(size);
}
static void own_free(malloc_zone_t* zone, void* block) {
    (void)zone;
    void** place = place_of(block);
    if (block == NULL || place == NULL) abort();
    *place = NULL;
    system_frees++;
    system_live--;
    free(block);
}
static void* own_realloc(malloc_zone_t* zone, void* block, size_t size) {
    void* moved = own_malloc(zone, size);
    size_t before = own_size(zone, block);
    memcpy(moved, block, before < size ? before : size);
    own_free(zone, block);
    return moved;
}
static malloc_zone_t usual = {.size = own_size,
                              .malloc = own_malloc,
                              .free = own_free,
                              .realloc = own_realloc,
                              .zone_name = "DefaultMallocZone"};
static size_t has_none(malloc_zone_t* zone, const void* block) {
    (void)zone, (void)block;
    return 0;
}
static malloc_zone_t purgeable = {.size = has_none, .zone_name = "DefaultPurgeableMallocZone"};

// ---- the list ----

kern_return_t malloc_get_all_zones(task_t task, memory_reader_t reader, vm_address_t** list,
                                   unsigned* count) {
    (void)task, (void)reader;
    *list = (vm_address_t*)(void*)zones;
    *count = zone_count;
    return KERN_SUCCESS;
}
void malloc_zone_register(malloc_zone_t* zone) {
    for (unsigned i = 0; i < zone_count; i++)
        if (zones[i] == zone) abort();
    if (zone_count == ZONES) abort();
    zones[zone_count++] = zone;
}
void malloc_zone_unregister(malloc_zone_t* zone) {
    for (unsigned i = 0; i < zone_count; i++) {
        if (zones[i] != zone) continue;
        zones[i] = zones[--zone_count];
        return;
    }
    abort();
}
malloc_zone_t* malloc_default_purgeable_zone(void) {
    static bool made;
    if (!made) malloc_zone_register(&purgeable);
    made = true;
    return &purgeable;
}

// ---- malloc ----

static malloc_zone_t* zone_of(const void* block) {
    for (unsigned i = 0; i < zone_count; i++)
        if (zones[i]->size(zones[i], block) != 0) return zones[i];
    return NULL;
}
void system_free(void* block) {
    malloc_zone_t* zone = zone_of(block);
    if (zone == NULL) abort(); // "pointer being freed was not allocated"
    zone->free(zone, block);
}
void* system_realloc(void* block, size_t size) {
    malloc_zone_t* zone = zone_of(block);
    if (zone == NULL) abort();
    return zone->realloc(zone, block, size);
}
void* reallocf(void* block, size_t size) {
    return system_realloc(block, size);
}
size_t malloc_size(const void* block) {
    malloc_zone_t* zone = zone_of(block);
    return zone == NULL ? 0 : zone->size(zone, block);
}
size_t malloc_good_size(size_t size) {
    return size;
}

// ---- fork ----

static void each_zone(bool lock, bool child) {
    for (unsigned i = 0; i < zone_count; i++) {
        const malloc_introspection_t* of = zones[i]->introspect;
        if (of != NULL)
            (lock ? of->force_lock : child ? of->reinit_lock : of->force_unlock)(zones[i]);
    }
}
static void before_fork(void) {
    each_zone(true, false);
}
static void after_fork(void) {
    each_zone(false, false);
}
static void after_fork_in_child(void) {
    each_zone(false, true);
}
__attribute__((constructor(101))) static void system_start(void) { // before zone.c's
    malloc_zone_register(&usual);
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

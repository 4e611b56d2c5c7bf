// What POSIX has no function for. Each of these answers as its header says for a system that cannot
// do it; docs/reference/platforms.md states what Keel loses by that.
#include "os/confined.h"
#include "os/huge.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/symbol.h"

// --- Filters of system calls ---------------------------------------------------------------------

atomic_state os_confinement;

bool os_may_look(void) {
    return true;
}

// --- Mappings that move --------------------------------------------------------------------------

void* os_remap_anywhere(void* start, size_t old_bytes, size_t new_bytes) {
    (void)start, (void)old_bytes, (void)new_bytes;
    return NULL;
}

void* os_remap_content(void* start, size_t bytes, void* place) {
    (void)start, (void)bytes, (void)place;
    return NULL;
}

// --- Pages ---------------------------------------------------------------------------------------

bool os_resident(void* start, size_t bytes, unsigned char* resident) {
    (void)start, (void)bytes, (void)resident;
    return false;
}

bool os_guards_are_light(void) {
    return false;
}

bool os_mark_guard(void* start, size_t bytes) {
    (void)start, (void)bytes;
    return false;
}

bool os_unmark_guard(void* start, size_t bytes) {
    (void)start, (void)bytes;
    return false;
}

// --- Huge pages and memory nodes -----------------------------------------------------------------

void os_forbid_huge_pages(void* start, size_t bytes) {
    (void)start, (void)bytes;
}

void os_prefer_huge_pages(void* start, size_t bytes) {
    (void)start, (void)bytes;
}

size_t os_map_huge(size_t pages, unsigned shift, size_t step, int node, uint64_t deadline_ms,
                   void** start) {
    (void)pages, (void)shift, (void)step, (void)node, (void)deadline_ms;
    *start = NULL;
    return 0;
}

bool os_machine_has_huge_pages(void) {
    return false;
}

unsigned os_numa_nodes(void) {
    return 1;
}

unsigned os_numa_node(void) {
    return 0;
}

// --- Limits of groups of processes ---------------------------------------------------------------

uint64_t os_memory_headroom(void) {
    return UINT64_MAX;
}

// --- Copies that the C library did not make ------------------------------------------------------

void os_process_mark(void) {}

void os_process_unmark(void) {}

bool os_process_is_copy(void) {
    return false;
}

// --- The process seen from inside ----------------------------------------------------------------

struct os_code os_own_code;

void os_stack_prepare(void) {}

unsigned os_stack_walk(struct os_frame* frames, unsigned most) {
    (void)frames, (void)most;
    return 0;
}

bool os_maps_read(struct os_maps* maps) {
    *maps = (struct os_maps){0};
    return false;
}

void os_maps_free(struct os_maps* maps) {
    (void)maps;
}

bool os_maps_next(const struct os_maps* maps, size_t* at, struct os_mapping* mapping) {
    (void)maps, (void)at, (void)mapping;
    return false;
}

bool os_maps_find(const struct os_maps* maps, uintptr_t address, struct os_module* module) {
    (void)maps, (void)address, (void)module;
    return false;
}

bool os_function_is(const struct os_module* module, struct os_name name) {
    (void)module, (void)name;
    return false;
}

size_t os_read_memory(uintptr_t address, void* buffer, size_t bytes) {
    (void)address, (void)buffer, (void)bytes;
    return 0;
}

// What POSIX has no function for, nor Windows. Each of these answers as its header says for a
// system that cannot do it, or goes another way; docs/reference/platforms.md states what Keel loses
// by that.
#include "base/bits.h"
#include "os/confined.h"
#include "os/count.h"
#include "os/huge.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/symbol.h"
#include <string.h>

// --- Filters of system calls ---------------------------------------------------------------------

atomic_state os_confinement;

bool os_may_look(void) {
    return true;
}

// --- Mappings that grow or move ------------------------------------------------------------------

bool os_remap(void* start, size_t old_bytes, size_t new_bytes) {
    return new_bytes <= old_bytes &&
           (new_bytes == old_bytes || os_unmap((char*)start + new_bytes, old_bytes - new_bytes));
}

void* os_remap_anywhere(void* start, size_t old_bytes, size_t new_bytes) {
    (void)start, (void)old_bytes, (void)new_bytes;
    return NULL;
}

void* os_remap_content(void* start, size_t bytes, void* place) {
    (void)start, (void)bytes, (void)place;
    return NULL;
}

// --- Pages ---------------------------------------------------------------------------------------

bool os_memory_is_locked(void) {
    return false;
}

void os_zero(void* start, size_t bytes) {
    memset(start, 0, bytes);
}

// The pages are the caller's. (An atomic operation that changes nothing is only a read with clang.)
bool os_populate(void* start, size_t bytes) {
    os_count_call(EVENT_POPULATE);
    for (size_t at = 0; at < bytes; at += os_page_bytes())
        *((volatile char*)start + at) = *((volatile char*)start + at);
    return true;
}

void os_touch(void* start, size_t bytes) {
    const size_t unit = os_page_bytes();
    const uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t at = (uintptr_t)start; at < end; at = round_down(at, unit) + unit)
        *(volatile char*)at = 0;
}

void os_provide(void* start, size_t bytes) {
    os_touch(start, bytes);
}

bool os_touch_huge(void* start, size_t bytes, uint64_t* took_us) {
    (void)bytes;
    *took_us = 0;
    os_touch(start, os_page_bytes());
    return false;
}

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
void os_stack_before_fork(void) {}
void os_stack_after_fork(void) {}
void os_stack_repair_in_child(void) {}

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

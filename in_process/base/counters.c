#include "base/counters.h"
#include "base/panic.h"

KEEL_LARGE struct counters counters;
struct counted_since counted_since;

uint64_t event_total(enum event event) {
    uint64_t total = 0;
    for (unsigned i = 0; i < EVENT_SHARDS; i++) {
        struct event_shard* shard = &counters.shards[i];
        total += atomic_get(&shard->events[event]);
        for (unsigned f = 0; f < FAULT_SHARDS && event == EVENT_INLINE_FAULTS; f++)
            total += atomic_get(&shard->faults[f].count);
    }
    return total;
}

const char* event_name(enum event event) {
    static const char* const names[EVENT_COUNT] = {
        [EVENT_MAP] = "map_calls",
        [EVENT_UNMAP] = "unmap_calls",
        [EVENT_REMAP] = "remap_calls",
        [EVENT_PURGE] = "purge_calls",
        [EVENT_PURGED_SLICES] = "purged_slices",
        [EVENT_INLINE_CALLS] = "inline_syscalls",
        [EVENT_INLINE_FAULTS] = "inline_faults",
        [EVENT_POPULATE] = "populate_calls",
        [EVENT_POPULATED_SLICES] = "populated_slices",
        [EVENT_POPULATE_REFUSED] = "populates_refused",
        [EVENT_RESERVE_MISS] = "reserve_misses",
        [EVENT_UNITS] = "units_populated",
        [EVENT_RELIEVED_PAGES] = "relieved_pages",
        [EVENT_EMPTIED_PAGES] = "emptied_pages",
        [EVENT_SLICES_TAKEN] = "slices_taken",
        [EVENT_JUMBO_ALLOCATED] = "jumbos_allocated",
        [EVENT_JUMBO_RELEASED] = "jumbos_released",
        [EVENT_HEAP_CREATED] = "heaps_created",
        [EVENT_HEAP_ADOPTED] = "heaps_adopted",
        [EVENT_HEAP_PARKED] = "heaps_parked",
        [EVENT_HEAP_LOOKS] = "heap_looks",
        [EVENT_GUARDED] = "guarded",
        [EVENT_GUARD_MISSED] = "guards_missed",
        [EVENT_FOREIGN_FREE] = "foreign_frees",
        [EVENT_OUT_OF_MEMORY] = "out_of_memory",
    };
    return names[event];
}

uint64_t work_bound(enum work work) {
    static const uint64_t bounds[WORK_COUNT] = {
        [WORK_CARVE_LINKS] = 16, [WORK_DRAIN_PAGES] = 32, [WORK_PAGE_PROBES] = 4,
        [WORK_RUN_TRIES] = 8,    [WORK_PURGE_SLICES] = 1, [WORK_RECLAIM] = 256,
        [WORK_RELIEF_STEP] = 64, [WORK_RUN_WINDOWS] = 16,
    };
    return bounds[work];
}

const char* work_name(enum work work) {
    static const char* const names[WORK_COUNT] = {
        [WORK_CARVE_LINKS] = "carve_links",   [WORK_DRAIN_PAGES] = "drain_pages",
        [WORK_PAGE_PROBES] = "page_probes",   [WORK_RUN_TRIES] = "run_tries",
        [WORK_PURGE_SLICES] = "purge_slices", [WORK_RECLAIM] = "reclaim",
        [WORK_RELIEF_STEP] = "relief_step",   [WORK_RUN_WINDOWS] = "run_windows",
    };
    return names[work];
}

void work_exceeded(enum work work) {
    panic(FAULT_CORRUPT, (const void*)(uintptr_t)work);
}

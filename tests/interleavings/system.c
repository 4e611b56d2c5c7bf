// Replaces system calls of the code under test: futexes that put coroutines to sleep, memory that
// is undone with the run, and a panic that fails the run.
#include "base/panic.h"
#include "engine.h"
#include "os/call.h"
#include "os/confined.h"
#include "os/huge.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define MAPPINGS_MAX 16u

static struct {
    char* start;
    size_t bytes;
    size_t alignment;
    bool taken;    // in this run, or by prepare
    bool for_ever; // by prepare
} mappings[MAPPINGS_MAX];

atomic_state os_confinement; // no filter of system calls is known
bool os_may_look(void) {
    return false; // and none is looked for
}

static bool refuses;
static const void* sleeps_on[THREADS_MAX];

void system_run_begin(void) {
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) mappings[i].taken = mappings[i].for_ever;
    memset(sleeps_on, 0, sizeof sleeps_on);
}

void explore_refuse_memory(void) {
    refuses = true;
}

size_t os_page_bytes(void) {
    return 4096;
}

// At fixed addresses, so that every process explores the same schedules.
static bool mapping_make(unsigned i, size_t bytes, size_t alignment) {
    static uintptr_t next = UINT64_C(0x200000000000) + ((uintptr_t)300 << 20);
    next = (next + alignment - 1) / alignment * alignment;
    char* start = mmap((void*)next, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (start == MAP_FAILED) return false;
    next += bytes;
    mappings[i].start = start;
    mappings[i].bytes = bytes;
    mappings[i].alignment = alignment;
    return true;
}

// Fails for more than a superblock and a window's metadata, so that windows stay small. A mapping
// of a run is all zero again after the run has been undone, and the next run gets the same one.
void* os_map(size_t bytes, size_t alignment) {
    if (refuses || bytes > (size_t)13 << 20) return NULL;
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) {
        if (mappings[i].taken) continue;
        if (mappings[i].bytes != 0 &&
            (mappings[i].bytes != bytes || mappings[i].alignment != alignment))
            continue;
        if (mappings[i].bytes == 0 && !mapping_make(i, bytes, alignment)) break;
        mappings[i].taken = true;
        mappings[i].for_ever = phase == OUTSIDE;
        return mappings[i].start;
    }
    explore_fail("the explorer has no room for more mappings");
}

void* os_map_readable(size_t bytes) {
    return os_map(bytes, os_page_bytes());
}
bool os_allow_writing(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
    return true;
}
void os_forbid_writing(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
}

static bool overlaps(const char* start, size_t bytes, unsigned i) {
    return mappings[i].taken && start < mappings[i].start + mappings[i].bytes &&
           mappings[i].start < start + bytes;
}

enum os_placing os_map_at(void* start, size_t bytes) {
    unsigned place = MAPPINGS_MAX;
    if (refuses) return OS_REFUSED;
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) {
        if (overlaps(start, bytes, i)) return OS_TAKEN;
        bool same = mappings[i].start == start && mappings[i].bytes == bytes;
        if (!mappings[i].taken && (same || (mappings[i].bytes == 0 && place == MAPPINGS_MAX)))
            place = i;
    }
    if (place == MAPPINGS_MAX) explore_fail("the explorer has no room for more mappings");
    if (mappings[place].bytes == 0) {
        char* mapped =
            mmap(start, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (mapped != start) return OS_REFUSED;
        mappings[place].start = mapped;
        mappings[place].bytes = bytes;
        mappings[place].alignment = 0; // os_map never returns it
    }
    mappings[place].taken = true;
    mappings[place].for_ever = phase == OUTSIDE;
    return OS_PLACED;
}
// A number for each thread, so that all runs are alike.
uint64_t os_address_space_limit(void) {
    return UINT64_MAX;
}

void* os_symbol(const char* name) {
    (void)name;
    return NULL;
}

uint64_t os_random(void) {
    return 1 + (uint64_t)self;
}

bool os_unmap(void* start, size_t bytes) {
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) {
        bool same = mappings[i].start == start && mappings[i].bytes == bytes;
        if (mappings[i].taken && same) return true;
    }
    explore_fail("a mapping is released that was not created");
}

bool os_memory_is_locked(void) {
    return false;
}

bool os_discard(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
    return true;
}
bool os_populate(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
    return true;
}
void os_touch(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
}
void os_provide(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
}
bool os_touch_huge(void* start, size_t bytes, uint64_t* took_us) {
    (void)start;
    (void)bytes;
    *took_us = 0;
    return true;
}
// No scenario has such a large block.
bool os_remap(void* start, size_t old_bytes, size_t new_bytes) {
    (void)start;
    return old_bytes == new_bytes;
}
void* os_remap_content(void* start, size_t bytes, void* place) {
    (void)start;
    (void)bytes;
    (void)place;
    return NULL;
}
void os_zero(void* start, size_t bytes) {
    memset(start, 0, bytes);
}
void* os_remap_anywhere(void* start, size_t old_bytes, size_t new_bytes) {
    (void)start;
    (void)old_bytes;
    (void)new_bytes;
    return NULL;
}
void* os_find_place(size_t bytes) {
    (void)bytes;
    return NULL;
}
void os_forbid_huge_pages(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
}
bool os_resident(void* start, size_t bytes, unsigned char* resident) {
    (void)start;
    (void)bytes;
    (void)resident;
    return false;
}
void os_prefer_huge_pages(void* start, size_t bytes) {
    (void)start;
    (void)bytes;
}

unsigned os_numa_nodes(void) {
    return 1;
}
unsigned os_numa_node(void) {
    return 0;
}

void panic_block(enum fault fault, const void* about, struct fault_block block) {
    (void)block;
    panic(fault, about);
}
void panic(enum fault fault, const void* about) {
    explore_fail("panic %d about %p", (int)fault, about);
}

static void futex_wait(const void* word, uint32_t expected) {
    static struct verb_site site = {"futex", "wait", "sleeps if as expected", "", 0, 0, 0};
    struct step step = {&site, memory_location(word, 4), ACCESS_WRITE};
    step_begin(&step);
    bool sleeps = (uint32_t)memory_newest(step.location) == expected;
    if (sleeps) sleeps_on[self] = word;
    step_end(memory_newest(step.location), memory_newest(step.location), false);
    if (sleeps) thread_sleep();
}

static void futex_wake(const void* word) {
    static struct verb_site site = {"futex", "wake", "wakes one", "", 0, 0, 0};
    struct step step = {&site, memory_location(word, 4), ACCESS_WRITE};
    step_begin(&step);
    unsigned sleepers[THREADS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        if (sleeps_on[i] == word) sleepers[count++] = i;
    }
    unsigned which = count > 1 ? step_choose(count) : 0;
    step_end(count, count, false);
    if (count == 0) return;
    sleeps_on[sleepers[which]] = NULL;
    thread_wake(sleepers[which]);
}

intptr_t kl_system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                        uintptr_t e, uintptr_t f) {
    (void)d;
    (void)e;
    (void)f;
    const void* word = (const void*)a;
    if (number == SYS_gettid) return 1 + (intptr_t)self;
    if (number != SYS_futex) explore_fail("system call %ld", (long)number);
    if (phase != RUNNING) return 0;
    if (b == FUTEX_WAIT_PRIVATE) futex_wait(word, (uint32_t)c);
    if (b == FUTEX_WAKE_PRIVATE) futex_wake(word);
    return 0;
}

// The clock stands still: no period ever ends.
bool os_order_threads(void) {
    return true;
}
uint64_t os_clock_ms(void) {
    return 1;
}

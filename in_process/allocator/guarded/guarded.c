#include "allocator/guarded/guarded.h"
#include "allocator/guarded/report.h"
#include "allocator/space/window.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/panic.h"
#include "base/probe.h"
#include "os/lock.h"
#include "os/memory.h"

#define READY_TARGET 8u
#define READY_LOW 4u
#define CLOSING_WAKES 4u // freed blocks for which the keeper is woken
#define CLOSING_MAX 16u  // beyond this many, the thread that frees closes one itself
#define KEEP_STEPS 16u   // of the keeper in one tick
#define BLOCKS (GUARDED_SLOTS + GUARDED_MAPPINGS)

struct list {
    struct guarded* first;
    struct guarded* last;
    atomic_state count;
};

static struct {
    struct os_lock lock;
    atomic_word blocks; // struct guarded[BLOCKS]: slots, then mappings; 0: not prepared
    char* slots;
    bool light; // the system marks guards (os_guards_are_light)
    struct list ready;
    struct list closed;          // slots
    struct list closing;         // freed blocks of both kinds
    struct list closed_mappings; // address space without memory
    size_t closed_bytes;         // of these
    atomic_state refused;        // the system has refused to prepare
    void (*wake)(void);
} pool;

static struct guarded* block_at(unsigned index) {
    KEEL_ASSERT(index < BLOCKS || index == GUARDED_SLOTS);
    return (struct guarded*)atomic_get_acquire(&pool.blocks) + index;
}
static bool is_slot(const struct guarded* block) {
    return block < block_at(GUARDED_SLOTS);
}
static bool is_prepared(void) {
    return atomic_get_acquire(&pool.blocks) != 0;
}

// The caller holds the lock.
static void list_append(struct list* list, struct guarded* block) {
    KEEL_ASSERT(list->first == NULL || list->last != NULL);
    block->next = NULL;
    if (list->first == NULL)
        list->first = block;
    else
        list->last->next = block;
    list->last = block;
    atomic_set(&list->count, atomic_get(&list->count) + 1);
}
static struct guarded* list_first(struct list* list) {
    struct guarded* block = list->first;
    if (block == NULL) return NULL;
    KEEL_ASSERT(atomic_get(&list->count) > 0);
    list->first = block->next;
    atomic_set(&list->count, atomic_get(&list->count) - 1);
    return block;
}

static void put(struct list* list, struct guarded* block) {
    os_lock_acquire(&pool.lock);
    list_append(list, block);
    os_lock_release(&pool.lock);
}
static struct guarded* take(struct list* list) {
    if (atomic_get(&list->count) == 0) return NULL;
    os_lock_acquire(&pool.lock);
    struct guarded* block = list_first(list);
    os_lock_release(&pool.lock);
    return block;
}

// --- Preparation ---------------------------------------------------------------------------------

// A guard before each slot, and one behind the last.
static void describe_slots(struct guarded* blocks, char* slots) {
    KEEL_ASSERT((uintptr_t)slots % SLICE_BYTES == 0);
    size_t guard = os_page_bytes();
    for (unsigned i = 0; i < GUARDED_SLOTS; i++) {
        blocks[i].area = slots + i * SLICE_BYTES + guard;
        blocks[i].area_bytes = SLICE_BYTES - guard;
        atomic_set(&blocks[i].state, GUARDED_CLOSED);
        if (guard < SLICE_BYTES) list_append(&pool.closed, &blocks[i]);
    }
}

// Where the system marks guards, the slots are memory that can be accessed, with guards everywhere.
// Then to open a slot and to close it changes no mapping. The guards come first: in a program that
// locks its memory, the system would provide all of it with memory.
static bool slots_guard(char* slots, size_t bytes, bool* light) {
    *light = os_mark_guard(slots, bytes);
    return !*light || os_allow_writing(slots, bytes);
}

// If two threads prepare at once, the second one finds it done and returns its memory.
static bool prepare(void) {
    size_t table_bytes = round_up(BLOCKS * sizeof(struct guarded), os_page_bytes());
    size_t slots_bytes = GUARDED_SLOTS * SLICE_BYTES;
    struct guarded* blocks = os_map(table_bytes, os_page_bytes());
    char* slots = os_map_closed(slots_bytes + os_page_bytes(), SLICE_BYTES);
    bool possible = blocks != NULL && slots != NULL && window_for(slots) != NULL &&
                    window_for(slots + slots_bytes - 1) != NULL;
    bool light = false;
    possible = possible && slots_guard(slots, slots_bytes + os_page_bytes(), &light);
    os_lock_acquire(&pool.lock);
    bool first = possible && atomic_get(&pool.blocks) == 0;
    if (first) {
        describe_slots(blocks, slots);
        pool.slots = slots;
        pool.light = light;
        atomic_set_release(&pool.blocks, (uintptr_t)blocks);
    }
    os_lock_release(&pool.lock);
    if (first) return true;
    if (blocks != NULL) os_unmap(blocks, table_bytes);
    if (slots != NULL) os_unmap(slots, slots_bytes + os_page_bytes());
    if (!possible) atomic_set(&pool.refused, 1);
    return is_prepared();
}

// --- Slots and mappings --------------------------------------------------------------------------

static bool open_slot(struct guarded* slot, bool warm) {
    KEEL_ASSERT(is_slot(slot) && atomic_get(&slot->state) == GUARDED_CLOSED);
    bool open = pool.light ? os_unguard(slot->area, slot->area_bytes)
                           : os_allow_writing(slot->area, slot->area_bytes);
    if (!open) {
        put(&pool.closed, slot);
        return false;
    }
    atomic_set(&slot->state, GUARDED_READY);
    size_t page = os_page_bytes();
    char* last = slot->area + slot->area_bytes - page;
    bool has_memory = slot->kept == last;
    guarded_clean(slot);
    if (warm && !has_memory) (void)os_populate(last, page);
    return true;
}

static struct guarded* take_slot(bool realtime) {
    struct guarded* slot = take(&pool.ready);
    if (slot != NULL || (realtime && policy_has_keeper())) return slot;
    slot = take(&pool.closed);
    return slot != NULL && open_slot(slot, false) ? slot : NULL;
}

// Once the memory is unmapped, another block may be mapped there. So mapping_around must not find
// this one any more before that.
static void end_mapping(struct guarded* block) {
    KEEL_ASSERT(!is_slot(block));
    (void)atomic_swap(&block->state, GUARDED_READY);
    atomic_set_release(&block->begin, 0);
    os_unmap_guarded(block->area, block->area_bytes);
    atomic_set_release(&block->state, GUARDED_UNUSED);
}

// An entry for a mapping: an unused one, else that of the mapping that was closed first.
static struct guarded* take_entry(void) {
    for (unsigned i = GUARDED_SLOTS; i < BLOCKS; i++) {
        uint32_t unused = GUARDED_UNUSED;
        if (atomic_try_state(&block_at(i)->state, &unused, GUARDED_READY)) return block_at(i);
    }
    os_lock_acquire(&pool.lock);
    struct guarded* block = list_first(&pool.closed_mappings);
    if (block != NULL) pool.closed_bytes -= block->area_bytes;
    os_lock_release(&pool.lock);
    if (block == NULL) return NULL;
    end_mapping(block);
    uint32_t unused = GUARDED_UNUSED; // or another thread has taken it since
    return atomic_try_state(&block->state, &unused, GUARDED_READY) ? block : NULL;
}

static struct guarded* take_mapping(size_t bytes, size_t alignment, bool realtime) {
    if (realtime || alignment > os_page_bytes()) return NULL;
    struct guarded* block = take_entry();
    if (block == NULL) return NULL;
    size_t area_bytes = round_up(bytes, os_page_bytes());
    char* area = os_map_guarded(area_bytes);
    if (area != NULL && window_for(area) != NULL) {
        block->area = area;
        block->area_bytes = area_bytes;
        atomic_set_release(&block->end, (uintptr_t)area + area_bytes + os_page_bytes());
        atomic_set_release(&block->begin, (uintptr_t)area - os_page_bytes());
        return block;
    }
    if (area != NULL) os_unmap_guarded(area, area_bytes);
    atomic_set_release(&block->state, GUARDED_UNUSED);
    return NULL;
}

// The mappings that were closed first end when the freed ones occupy too much address space.
static void add_closed_mapping(struct guarded* block) {
    KEEL_ASSERT(!is_slot(block) && block->area_bytes > 0);
    struct guarded* ends = NULL;
    os_lock_acquire(&pool.lock);
    list_append(&pool.closed_mappings, block);
    pool.closed_bytes += block->area_bytes;
    while (pool.closed_bytes > GUARDED_CLOSED_BYTES && pool.closed_mappings.first != block) {
        struct guarded* oldest = list_first(&pool.closed_mappings);
        pool.closed_bytes -= oldest->area_bytes;
        oldest->next = ends;
        ends = oldest;
    }
    os_lock_release(&pool.lock);
    while (ends != NULL) {
        struct guarded* next = ends->next;
        end_mapping(ends);
        ends = next;
    }
}

// A block in one system page keeps its memory, except where guards are marked: then to close and to
// open it cost half as much.
static void close_block(struct guarded* block) {
    KEEL_ASSERT(atomic_get(&block->state) == GUARDED_FREED);
    block->kept = is_slot(block) && !pool.light ? guarded_page_to_keep(block) : NULL;
    if (pool.light)
        (void)os_guard(block->area, block->area_bytes);
    else if (block->kept != NULL)
        os_forbid_access(block->area, block->area_bytes);
    else
        os_close(block->area, block->area_bytes);
    atomic_set_release(&block->state, GUARDED_CLOSED);
    if (is_slot(block))
        put(&pool.closed, block);
    else
        add_closed_mapping(block);
}

// --- Allocation and free -------------------------------------------------------------------------

static void wake_keeper(void) {
    if (pool.wake != NULL && guarded_waits()) pool.wake();
}

struct page* guarded_allocate(size_t bytes, size_t alignment, bool at_begin, bool realtime) {
    if (bytes == 0) bytes = 1;
    if (atomic_get(&pool.refused) != 0 || (!is_prepared() && !prepare())) return NULL;
    const struct guarded* slot = block_at(0);
    struct guarded* block = guarded_fits(slot->area, slot->area_bytes, bytes, alignment)
                                ? take_slot(realtime)
                                : take_mapping(bytes, alignment, realtime);
    if (block == NULL) {
        count_event(EVENT_GUARD_MISSED, 1);
        return NULL;
    }
    guarded_place(block, bytes, alignment, at_begin);
    guarded_record_call(&block->allocated);
    atomic_set_release(&block->state, GUARDED_LIVE);
    count_event(EVENT_GUARDED, 1);
    KEEL_PROBE(sampled, block->start, bytes);
    struct page* page = page_of(block->start);
    page->start = block->start;
    page->bytes = bytes;
    page->block_bytes = 0;
    page->distance = 0;
    atomic_set_release(&page->owner, PAGE_JUMBO | PAGE_GUARDED);
    if (!realtime) wake_keeper();
    return page;
}

// Whose memory or guards contain the address; if two are beside it, the nearer one.
static struct guarded* nearer(struct guarded* a, struct guarded* b, const char* address) {
    if (a == NULL || a->start == NULL) return b;
    if (b == NULL || b->start == NULL || address < a->start + a->bytes) return a;
    size_t behind = (size_t)(address - (a->start + a->bytes));
    return address < b->start && (size_t)(b->start - address) < behind ? b : a;
}

static struct guarded* slot_around(const char* address) {
    size_t offset = (size_t)(address - pool.slots);
    unsigned index = (unsigned)(offset / SLICE_BYTES);
    struct guarded* slot = index < GUARDED_SLOTS ? block_at(index) : NULL;
    if (offset % SLICE_BYTES >= os_page_bytes()) return slot;
    return nearer(index > 0 ? block_at(index - 1) : NULL, slot, address);
}

// The entry may get another mapping between the two reads. Then `begin`, which is written before
// and after `end`, differs afterwards.
static bool mapping_contains(const struct guarded* block, uintptr_t address) {
    uintptr_t begin = atomic_get_acquire(&block->begin);
    uintptr_t end = atomic_get_acquire(&block->end);
    return begin != 0 && address >= begin && address < end &&
           atomic_get_acquire(&block->begin) == begin;
}

static struct guarded* mapping_around(const char* address) {
    for (unsigned i = GUARDED_SLOTS; i < BLOCKS; i++) {
        struct guarded* block = block_at(i);
        uint32_t state = atomic_get_acquire(&block->state);
        if (state < GUARDED_LIVE && state != GUARDED_CLOSED) continue;
        if (mapping_contains(block, (uintptr_t)address)) return block;
    }
    return NULL;
}

// NULL: not in the memory of guarded blocks.
static struct guarded* guarded_around(const char* address) {
    if (!is_prepared()) return NULL;
    bool in_slots = (size_t)(address - pool.slots) < GUARDED_SLOTS * SLICE_BYTES + os_page_bytes();
    return in_slots ? slot_around(address) : mapping_around(address);
}

static void free_of_other_address(const struct guarded* block, const char* address) {
    if (block->start == NULL || atomic_get(&block->state) == GUARDED_READY)
        panic(FAULT_FREE_NOT_ALLOCATED, address);
    bool live = atomic_get(&block->state) == GUARDED_LIVE;
    if (address == block->start && !live) guarded_panic(FAULT_DOUBLE_FREE, block, address);
    guarded_panic(live ? FAULT_FREE_MISALIGNED : FAULT_FREE_NOT_ALLOCATED, block, address);
}

void guarded_verify(const struct page* page, const void* address) {
    if (address == page->start) return;
    const struct guarded* block = guarded_around(page->start);
    if (block != NULL) free_of_other_address(block, address);
}

void guarded_free_unknown(const void* address) {
    const struct guarded* block = guarded_around(address);
    if (block != NULL) free_of_other_address(block, address);
}

unsigned guarded_close_freed(void) {
    unsigned steps = 0;
    struct guarded* block;
    for (; steps < KEEP_STEPS && (block = take(&pool.closing)) != NULL; steps++) close_block(block);
    return steps;
}

// A block that the caller holds, so that the start of no other one becomes the same.
static struct guarded* live_block(const char* start) {
    if ((size_t)(start - pool.slots) < GUARDED_SLOTS * SLICE_BYTES) return slot_around(start);
    for (unsigned i = GUARDED_SLOTS; i < BLOCKS; i++)
        if (block_at(i)->start == start && atomic_get(&block_at(i)->state) >= GUARDED_LIVE)
            return block_at(i);
    return NULL;
}

void guarded_free(struct page* page) {
    KEEL_ASSERT(page_is_guarded(page));
    struct guarded* block = live_block(page->start);
    KEEL_REQUIRE(block != NULL, page->start);
    const char* byte = guarded_overwritten(block);
    if (byte != NULL)
        guarded_panic(byte < block->start ? FAULT_UNDERFLOW : FAULT_OVERFLOW, block, byte);
    uint32_t live = GUARDED_LIVE;
    if (!atomic_try_state(&block->state, &live, GUARDED_FREED))
        guarded_panic(FAULT_DOUBLE_FREE, block, block->start);
    guarded_record_call(&block->freed);
    atomic_set_release(&page->owner, 0);
    put(&pool.closing, block);
    if (!policy_has_keeper()) {
        guarded_close_freed();
        return;
    }
    if (atomic_get(&pool.closing.count) > CLOSING_MAX && (block = take(&pool.closing)) != NULL)
        close_block(block);
    wake_keeper();
}

// --- The keeper ----------------------------------------------------------------------------------

bool guarded_keep(void) {
    if (!is_prepared()) return false;
    unsigned steps = guarded_close_freed();
    for (; steps < 2 * KEEP_STEPS && atomic_get(&pool.ready.count) < READY_TARGET; steps++) {
        struct guarded* slot = take(&pool.closed);
        if (slot == NULL || !open_slot(slot, true)) break;
        put(&pool.ready, slot);
    }
    return steps > 0;
}

bool guarded_waits(void) {
    if (!is_prepared()) return false;
    bool low = atomic_get(&pool.ready.count) < READY_LOW && atomic_get(&pool.closed.count) > 0;
    return low || atomic_get(&pool.closing.count) >= CLOSING_WAKES;
}

bool guarded_is_used(void) {
    uint32_t unused = atomic_get(&pool.ready.count) + atomic_get(&pool.closed.count);
    return is_prepared() && unused < GUARDED_SLOTS;
}

void guarded_set_wake(void (*wake)(void)) {
    pool.wake = wake;
}

void guarded_before_fork(void) {
    os_lock_acquire(&pool.lock);
}
void guarded_after_fork(void) {
    os_lock_release(&pool.lock);
}
// What another thread was about to close is in no list.
void guarded_repair_in_child(void) {
    if (!is_prepared()) return;
    pool.closing = (struct list){.count = 0};
    for (unsigned i = 0; i < BLOCKS; i++)
        if (atomic_get(&block_at(i)->state) == GUARDED_FREED)
            list_append(&pool.closing, block_at(i));
}

// --- Faults --------------------------------------------------------------------------------------

void guarded_examine(uintptr_t address, enum os_access access) {
    const struct guarded* block = guarded_around((const char*)address);
    if (block == NULL || block->start == NULL) return;
    uint32_t state = atomic_get(&block->state);
    if (state == GUARDED_LIVE || state == GUARDED_FREED || state == GUARDED_CLOSED)
        guarded_report_access(block, (const char*)address, access);
}

// The list has blocks of this state only, as many as it counts.
static bool list_check(const struct list* list, enum guarded_state state, bool slots) {
    uint32_t count = 0;
    const struct guarded* block = list->first;
    for (; block != NULL && count < BLOCKS; block = block->next, count++) {
        if (atomic_get(&block->state) != state || (slots && !is_slot(block))) return false;
        if (block->next == NULL && block != list->last) return false;
    }
    return block == NULL && count == atomic_get(&list->count);
}

bool guarded_check(void) {
    size_t bytes = 0;
    if (!KEEL_CHECKS || !is_prepared()) return true;
    const struct guarded* block = pool.closed_mappings.first;
    for (; block != NULL; block = block->next) {
        if (is_slot(block)) return false;
        bytes += block->area_bytes;
    }
    return bytes == pool.closed_bytes && list_check(&pool.ready, GUARDED_READY, true) &&
           list_check(&pool.closed, GUARDED_CLOSED, true) &&
           list_check(&pool.closing, GUARDED_FREED, false) &&
           list_check(&pool.closed_mappings, GUARDED_CLOSED, false);
}

#include "allocator/large/quarantine.h"
#include "base/panic.h"

enum { EMPTY = 0, HELD = 1 };

static struct quarantined range_at(const struct quarantine* quarantine, unsigned at,
                                   uintptr_t start) {
    KEEL_ASSERT(at < QUARANTINE_PLACES && start > HELD && (start & HELD) == 0);
    return (struct quarantined){(char*)start, quarantine->place[at].bytes,
                                quarantine->place[at].thread, quarantine->place[at].access};
}

uintptr_t quarantine_at(const struct quarantine* quarantine, unsigned at) {
    KEEL_ASSERT(at < QUARANTINE_PLACES);
    uintptr_t start = atomic_get(&quarantine->place[at].start);
    return (start & HELD) != 0 ? EMPTY : start;
}

unsigned quarantine_turn(struct quarantine* quarantine) {
    return atomic_add(&quarantine->next, 1) % QUARANTINE_PLACES;
}

bool quarantine_hold(struct quarantine* quarantine, unsigned at, struct quarantined* range) {
    KEEL_ASSERT(at < QUARANTINE_PLACES);
    atomic_word* start = &quarantine->place[at].start;
    uintptr_t seen = atomic_get(start);
    if ((seen & HELD) != 0 || !atomic_try_word(start, &seen, seen | HELD)) return false;
    *range = seen == EMPTY ? (struct quarantined){0} : range_at(quarantine, at, seen);
    (void)atomic_sub(&quarantine->bytes, (int64_t)range->bytes);
    return true;
}

// A child of fork must not find the start with what belongs to another one.
void quarantine_note(struct quarantine* quarantine, unsigned at, struct quarantined range) {
    KEEL_ASSERT(at < QUARANTINE_PLACES && (range.start == NULL) == (range.bytes == 0));
    KEEL_ASSERT((atomic_get(&quarantine->place[at].start) & HELD) != 0);
    atomic_set_release(&quarantine->place[at].start, HELD);
    quarantine->place[at].bytes = range.bytes;
    quarantine->place[at].thread = range.thread;
    quarantine->place[at].access = range.access;
    atomic_set_release(&quarantine->place[at].start, (uintptr_t)range.start | HELD);
}

void quarantine_set(struct quarantine* quarantine, unsigned at, struct quarantined range) {
    quarantine_note(quarantine, at, range);
    (void)atomic_add(&quarantine->bytes, (int64_t)range.bytes);
    atomic_set_release(&quarantine->place[at].start, (uintptr_t)range.start);
}

struct quarantined quarantine_find(struct quarantine* quarantine, const void* start) {
    for (unsigned i = 0; i < QUARANTINE_PLACES; i++) {
        if (start == NULL || atomic_get(&quarantine->place[i].start) != (uintptr_t)start) continue;
        return range_at(quarantine, i, (uintptr_t)start);
    }
    return (struct quarantined){0};
}

void quarantine_forget(struct quarantine* quarantine) {
    int64_t total = 0; // a thread may have counted a block, or not, that it had not placed
    for (unsigned at = 0; at < QUARANTINE_PLACES; at++) {
        uintptr_t start = atomic_get(&quarantine->place[at].start);
        if ((start & HELD) != 0) quarantine->place[at].access = ACCESS_UNKNOWN;
        atomic_set(&quarantine->place[at].start, start & ~(uintptr_t)HELD);
        if (start > HELD) total += (int64_t)quarantine->place[at].bytes;
    }
    atomic_set(&quarantine->bytes, total);
}

bool quarantine_is_consistent(const struct quarantine* quarantine) {
    if (!KEEL_CHECKS) return true;
    int64_t total = 0;
    for (unsigned i = 0; i < QUARANTINE_PLACES; i++) {
        uintptr_t start = atomic_get(&quarantine->place[i].start);
        if (start == EMPTY) continue;
        if ((start & HELD) != 0 || quarantine->place[i].bytes == 0) return false;
        total += (int64_t)quarantine->place[i].bytes;
    }
    return total == atomic_get(&quarantine->bytes);
}

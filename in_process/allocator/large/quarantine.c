#include "allocator/large/quarantine.h"
#include "base/panic.h"

enum { EMPTY = 0, CHANGING = 1 };

static struct quarantined range_at(const struct quarantine* quarantine, unsigned at,
                                   uintptr_t start) {
    KEEL_ASSERT(at < QUARANTINE_PLACES && start > CHANGING);
    return (struct quarantined){(char*)start, quarantine->place[at].bytes,
                                quarantine->place[at].thread, quarantine->place[at].closed};
}

uintptr_t quarantine_at(const struct quarantine* quarantine, unsigned at) {
    KEEL_ASSERT(at < QUARANTINE_PLACES);
    uintptr_t start = atomic_get(&quarantine->place[at].start);
    return start == CHANGING ? EMPTY : start;
}

struct quarantined quarantine_take_at(struct quarantine* quarantine, unsigned at) {
    KEEL_ASSERT(at < QUARANTINE_PLACES);
    struct quarantined range = {0};
    atomic_word* start = &quarantine->place[at].start;
    uintptr_t seen = atomic_get(start);
    if (seen == EMPTY || seen == CHANGING || !atomic_try_word(start, &seen, CHANGING)) return range;
    range = range_at(quarantine, at, seen);
    atomic_set_release(start, EMPTY);
    (void)atomic_sub(&quarantine->bytes, (int64_t)range.bytes);
    return range;
}

struct quarantined quarantine_put(struct quarantine* quarantine, struct quarantined range) {
    KEEL_ASSERT(range.start != NULL && range.bytes > 0);
    unsigned at = atomic_add(&quarantine->next, 1) % QUARANTINE_PLACES;
    atomic_word* start = &quarantine->place[at].start;
    uintptr_t seen = atomic_get(start);
    if (seen == CHANGING || !atomic_try_word(start, &seen, CHANGING)) return range;
    struct quarantined oldest = {0};
    if (seen != EMPTY) oldest = range_at(quarantine, at, seen);
    quarantine->place[at].bytes = range.bytes;
    quarantine->place[at].thread = range.thread;
    quarantine->place[at].closed = range.closed;
    (void)atomic_add(&quarantine->bytes, (int64_t)range.bytes - (int64_t)oldest.bytes);
    atomic_set_release(start, (uintptr_t)range.start);
    return oldest;
}

struct quarantined quarantine_find(struct quarantine* quarantine, const void* start) {
    for (unsigned i = 0; i < QUARANTINE_PLACES; i++) {
        if (start == NULL || atomic_get(&quarantine->place[i].start) != (uintptr_t)start) continue;
        return range_at(quarantine, i, (uintptr_t)start);
    }
    return (struct quarantined){0};
}

struct quarantined quarantine_take(struct quarantine* quarantine) {
    unsigned next = atomic_get(&quarantine->next);
    struct quarantined range = {0};
    for (unsigned i = 0; i < QUARANTINE_PLACES && range.start == NULL; i++)
        range = quarantine_take_at(quarantine, (next + i) % QUARANTINE_PLACES);
    return range;
}

bool quarantine_is_consistent(const struct quarantine* quarantine) {
    if (!KEEL_CHECKS) return true;
    int64_t total = 0;
    for (unsigned i = 0; i < QUARANTINE_PLACES; i++) {
        uintptr_t start = atomic_get(&quarantine->place[i].start);
        if (start == EMPTY) continue;
        if (start == CHANGING || quarantine->place[i].bytes == 0) return false;
        total += (int64_t)quarantine->place[i].bytes;
    }
    return total == atomic_get(&quarantine->bytes);
}

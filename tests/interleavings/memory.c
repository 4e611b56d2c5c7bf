// Atomic locations: for each location the stores of this run, oldest first, and for each thread the
// oldest store that it may still see.
//
// A release store carries the knowledge of its thread (clocks and view); a load that acquires it
// receives that knowledge. A load may see any store that is not older than
//   - the newest that happens before it,
//   - the newest that its thread, or anything that happens before it, has seen there,
//   - if the load is ordered: the newest ordered store there.
// A read-modify-write sees the newest. The order of stores to one location is the order in which
// they were executed, so neither stores nor loads overtake earlier ones of their own thread; the
// decision's page lists what is not modelled.
#include "engine.h"
#include <string.h>

#define STORES_MAX 96u
#define SLOTS 1024u

struct view {
    uint8_t oldest[LOCATIONS_MAX]; // index of the oldest store that may be seen
};

struct store {
    uint64_t value;
    struct clocks sync; // with `released`: the knowledge for threads that acquire it
    struct view view;
    uint16_t stamp; // the writer's own clock then
    uint8_t writer;
    bool released;
};

static struct location {
    char* address;
    unsigned bytes;
    unsigned count;
    unsigned newest_ordered; // index of the newest ordered store
    bool is_count;
    struct store stores[STORES_MAX];
} locations[LOCATIONS_MAX];
static unsigned location_count;

static struct {
    const void* address;
    uint32_t run;
    uint16_t location;
} slots[SLOTS];
static uint32_t run_number;

static struct {
    struct clocks clocks;
    struct view view;
} threads[THREADS_MAX];

static void clocks_join(struct clocks* to, const struct clocks* from) {
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        if (to->of[i] < from->of[i]) to->of[i] = from->of[i];
    }
}

static void view_join(struct view* to, const struct view* from) {
    for (unsigned i = 0; i < location_count; i++) {
        if (to->oldest[i] < from->oldest[i]) to->oldest[i] = from->oldest[i];
    }
}

static uint64_t read_raw(const void* p, unsigned bytes) {
    uint64_t value = 0;
    memcpy(&value, p, bytes); // little-endian
    return value;
}

static void write_raw(void* p, unsigned bytes, uint64_t value) {
    if (phase != OUTSIDE) plain_log(p, bytes);
    memcpy(p, &value, bytes);
}

void memory_run_begin(void) {
    run_number++;
    location_count = 0;
    memset(threads, 0, sizeof threads);
    for (unsigned i = 0; i < THREADS_MAX; i++) threads[i].clocks.of[i] = 1;
}

const struct clocks* memory_clocks(unsigned thread) {
    return &threads[thread].clocks;
}

uint16_t memory_location(const void* p, unsigned bytes) {
    unsigned slot = (unsigned)(((uintptr_t)p >> 2) * 0x9E3779B1u >> 8) % SLOTS;
    while (slots[slot].run == run_number && slots[slot].address != p) slot = (slot + 1) % SLOTS;
    if (slots[slot].run == run_number) return slots[slot].location;
    if (location_count == LOCATIONS_MAX)
        explore_fail("the explorer has no room for more locations");
    slots[slot].run = run_number;
    slots[slot].address = p;
    slots[slot].location = (uint16_t)location_count;
    struct location* location = &locations[location_count];
    location->address = (char*)p;
    location->bytes = bytes;
    location->count = 1;
    location->newest_ordered = 0;
    location->is_count = false;
    location->stores[0].value = read_raw(p, bytes);
    location->stores[0].writer = 0;
    location->stores[0].stamp = 0; // before everything
    location->stores[0].released = false;
    for (unsigned i = 0; i < THREADS_MAX; i++) threads[i].view.oldest[location_count] = 0;
    // Views of earlier stores do not include it either.
    for (unsigned i = 0; i < location_count; i++) {
        for (unsigned j = 0; j < locations[i].count; j++)
            locations[i].stores[j].view.oldest[location_count] = 0;
    }
    return (uint16_t)location_count++;
}

uint64_t memory_newest(uint16_t index) {
    return read_raw(locations[index].address, locations[index].bytes);
}

static struct store* append(struct location* location) {
    if (location->count == STORES_MAX) explore_fail("too many stores to one location in a run");
    return &locations[location - locations].stores[location->count++];
}

// A word of a block is an atomic link at one time and plain memory at another. A plain write in
// between happens before this access (or is a race that has been reported), so nothing older may be
// seen.
static void take_in_plain_writes(struct location* location) {
    if (!plain_written(location->address, location->bytes)) return;
    struct store* store = append(location);
    store->value = read_raw(location->address, location->bytes);
    store->writer = 0;
    store->stamp = 0;
    store->released = false;
}

static struct location* access_begin(uint16_t index, bool write) {
    struct location* location = &locations[index];
    plain_check_atomic(location->address, location->bytes, write);
    take_in_plain_writes(location);
    return location;
}

static void acquire(const struct store* store, enum verb_order order) {
    if ((order & ACQUIRE) == 0 || !store->released) return;
    clocks_join(&threads[self].clocks, &store->sync);
    view_join(&threads[self].view, &store->view);
}

static void tick(void) {
    threads[self].clocks.of[self]++;
}

// Adds a store; `before` is the store that a read-modify-write continues, or NULL.
static void make_store(struct location* location, uint64_t value, enum verb_order order,
                       const struct store* before) {
    struct store* store = append(location);
    unsigned index = (unsigned)(location - locations);
    threads[self].view.oldest[index] = (uint8_t)(location->count - 1);
    store->value = value;
    store->writer = (uint8_t)self;
    store->stamp = threads[self].clocks.of[self];
    store->released = (order & RELEASE) != 0;
    if (store->released) {
        store->sync = threads[self].clocks;
        if (scenario_now()->weak > 0) store->view = threads[self].view;
    }
    if (before != NULL && before->released) { // the release sequence continues
        if (store->released) {
            clocks_join(&store->sync, &before->sync);
            if (scenario_now()->weak > 0) view_join(&store->view, &before->view);
        } else {
            store->sync = before->sync;
            if (scenario_now()->weak > 0) store->view = before->view;
            store->released = true;
        }
    }
    if (order == ORDERED) location->newest_ordered = location->count - 1;
    write_raw(location->address, location->bytes, value);
}

static unsigned oldest_visible(const struct location* location, enum verb_order order) {
    unsigned oldest = threads[self].view.oldest[location - locations];
    if (order == ORDERED && oldest < location->newest_ordered) oldest = location->newest_ordered;
    for (unsigned i = location->count - 1; i > oldest; i--) {
        const struct store* store = &location->stores[i];
        if (store->stamp <= threads[self].clocks.of[store->writer]) return i;
    }
    return oldest;
}

// Counts are only added to and read, and the result of an addition is not used. So additions
// commute, and the explorer need not try their orders.
static bool is_count(const struct verb_site* site) {
    static const char* const counts[] = {"&shard->events[event]", "&slice_counts.held"};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(site->what, counts[i]) == 0) return true;
    }
    return strcmp(site->verb, "bump") == 0;
}

static struct {
    const char* function;
    const char* verb;
    enum explore_break how;
} broken;

void explore_break(const char* function, const char* verb, enum explore_break how) {
    broken.function = function;
    broken.verb = verb;
    broken.how = how;
}

static enum explore_break broken_how(struct verb_site* site) {
    if (broken.function == NULL) return INTACT;
    if (!site->looked_up) {
        bool is_meant =
            strcmp(site->function, broken.function) == 0 && strcmp(site->verb, broken.verb) == 0;
        site->broken = (unsigned char)(is_meant ? broken.how : INTACT);
        site->looked_up = 1;
    }
    return (enum explore_break)site->broken;
}

uint64_t verb_load(const void* p, unsigned bytes, enum verb_order order, struct verb_site* site) {
    enum explore_break how = broken_how(site);
    if (how == LEFT_OUT) return 0;
    if (how == WEAKENED) order = RELAXED;
    if (phase != RUNNING) return read_raw(p, bytes);
    struct step step = {site, memory_location(p, bytes), ACCESS_READ};
    step_begin(&step);
    struct location* location = access_begin(step.location, false);
    unsigned newest = location->count - 1;
    unsigned older =
        is_count(site) ? 0 : step_choose_weak(newest - oldest_visible(location, order) + 1);
    const struct store* store = &location->stores[newest - older];
    threads[self].view.oldest[step.location] = (uint8_t)(newest - older);
    acquire(store, order);
    tick();
    uint64_t value = store->value;
    step_end(value, value, older > 0);
    return value;
}

void verb_store(void* p, unsigned bytes, uint64_t value, enum verb_order order,
                struct verb_site* site) {
    enum explore_break how = broken_how(site);
    if (how == LEFT_OUT) return;
    if (how == WEAKENED) order = RELAXED;
    if (phase != RUNNING) {
        write_raw(p, bytes, value);
        return;
    }
    struct step step = {site, memory_location(p, bytes), ACCESS_WRITE};
    step_begin(&step);
    struct location* location = access_begin(step.location, true);
    uint64_t before = location->stores[location->count - 1].value;
    make_store(location, value, order, NULL);
    tick();
    step_end(before, value, false);
}

static uint64_t updated(uint64_t value, enum verb_update how, uint64_t operand, unsigned bytes) {
    if (how == UPDATE_SWAP) value = operand;
    if (how == UPDATE_ADD) value += operand;
    if (how == UPDATE_OR) value |= operand;
    if (how == UPDATE_AND) value &= operand;
    return bytes == 8 ? value : value & 0xFFFFFFFF;
}

uint64_t verb_update(void* p, unsigned bytes, enum verb_update update, uint64_t operand,
                     enum verb_order order, struct verb_site* site) {
    enum explore_break how = broken_how(site);
    if (how == LEFT_OUT) return 0;
    if (how == WEAKENED) order = RELAXED;
    if (phase != RUNNING) {
        uint64_t value = read_raw(p, bytes);
        write_raw(p, bytes, updated(value, update, operand, bytes));
        return value;
    }
    if (how == SPLIT) {
        site->broken = INTACT;
        uint64_t value = verb_load(p, bytes, order, site);
        verb_store(p, bytes, updated(value, update, operand, bytes), order, site);
        site->broken = SPLIT;
        return value;
    }
    bool count = update == UPDATE_ADD && is_count(site);
    struct step step = {site, memory_location(p, bytes), count ? ACCESS_ADD : ACCESS_WRITE};
    step_begin(&step);
    struct location* location = access_begin(step.location, true);
    struct store before = location->stores[location->count - 1];
    acquire(&location->stores[location->count - 1], order);
    if (count && location->count == STORES_MAX) location->count--; // its old value is never read
    uint64_t value = updated(before.value, update, operand, bytes);
    make_store(location, value, order, &before);
    tick();
    step_end(before.value, value, false);
    return count ? UINT64_C(0xABAD1DEA) : before.value; // makes a use of the result visible
}

bool verb_try(void* p, unsigned bytes, uint64_t* expected, uint64_t desired, enum verb_order order,
              bool may_fail_spuriously, struct verb_site* site) {
    enum explore_break how = broken_how(site);
    if (how == WEAKENED) order = RELAXED;
    if (how == LEFT_OUT) return true;
    if (phase != RUNNING) {
        uint64_t value = read_raw(p, bytes);
        if (value == *expected) write_raw(p, bytes, desired);
        bool done = value == *expected;
        *expected = value;
        return done;
    }
    if (how == SPLIT) {
        site->broken = INTACT;
        uint64_t value = verb_load(p, bytes, order, site);
        bool done = value == *expected;
        if (done) verb_store(p, bytes, desired, order, site);
        site->broken = SPLIT;
        *expected = value;
        return done;
    }
    struct step step = {site, memory_location(p, bytes), ACCESS_WRITE};
    step_begin(&step);
    struct location* location = access_begin(step.location, true);
    const struct store before = location->stores[location->count - 1];
    bool equal = before.value == *expected;
    bool spurious = equal && may_fail_spuriously && step_choose_weak(2) == 1;
    bool done = equal && !spurious;
    if (done || !may_fail_spuriously) acquire(&before, order == ACQUIRE && !done ? RELAXED : order);
    threads[self].view.oldest[step.location] = (uint8_t)(location->count - 1);
    if (done) make_store(location, desired, order, &before);
    tick();
    step_end(before.value, done ? desired : before.value, spurious);
    *expected = before.value;
    return done;
}

#include "allocator/slices/run.h"
#include "allocator/slices/arena.h"
#include "allocator/slices/window.h"
#include "base/bits.h"
#include "base/counters.h"

#define RUN_TRIES 8u
#define RUN_PROBES 8u
#define WIDE_LOOKS 64u  // places compared for a run of several superblocks
#define WIDE_TRIES 128u // each that fails has taken a superblock out of a set

static atomic_signed live_slices;
static atomic_signed dirty_slices;
static atomic_bits narrow_taken;

size_t run_narrow_taken(void) {
    return atomic_get(&narrow_taken);
}

size_t run_live_slices(void) {
    int64_t count = atomic_get(&live_slices);
    return count < 0 ? 0 : (size_t)count;
}

size_t run_dirty_slices(void) {
    int64_t count = atomic_get(&dirty_slices);
    return count < 0 ? 0 : (size_t)count;
}

static char* slice_address(struct window* window, unsigned superblock, unsigned slice) {
    return window->base + superblock * SUPERBLOCK_BYTES + slice * SLICE_BYTES;
}

// Buckets that a superblock with this free word belongs to: 0 .. buckets_of - 1.
static unsigned buckets_of(uint64_t free) {
    return free == 0 ? 0 : bit_longest_log2(free) + 1;
}

// Files the superblock under the lengths that its free word has now and had not before (see
// superblock_set.h for the order; who made the others true has filed them).
static void superblock_file(struct window* window, unsigned index, uint64_t before, uint64_t now) {
    unsigned end = buckets_of(now);
    for (unsigned bucket = buckets_of(before); bucket < end; bucket++) {
        superblock_set_add(&window->by_run[bucket], index);
    }
}

static void superblock_unfile(struct window* window, unsigned index, unsigned bucket) {
    superblock_set_remove(&window->by_run[bucket], index);
    superblock_file(window, index, 0, atomic_get_ordered(&window->superblocks[index].free));
}

static const struct run run_none = {NULL, false, false};

// Books slices whose bits the caller has just cleared, and tells what was known of their memory.
static struct run slices_take(struct superblock* superblock, uint64_t mask, char* start) {
    uint64_t touched = atomic_or_ordered(&superblock->touched, mask) & mask;
    uint64_t zero = atomic_get(&superblock->zero) & mask;
    if (zero != 0) (void)atomic_and_ordered(&superblock->zero, ~mask);
    (void)atomic_add(&live_slices, (int64_t)bit_count(mask));
    (void)atomic_sub(&dirty_slices, (int64_t)bit_count(touched));
    return (struct run){start, touched == zero, touched == mask};
}

// Makes slices of the caller's free again.
static void slices_give(struct window* window, unsigned index, uint64_t mask) {
    (void)atomic_sub(&live_slices, (int64_t)bit_count(mask));
    (void)atomic_add(&dirty_slices, (int64_t)bit_count(mask));
    uint64_t before = atomic_or_ordered(&window->superblocks[index].free, mask);
    superblock_set_add(&window->dirty, index);
    superblock_file(window, index, before, before | mask);
}

static uint64_t eligible_slices(struct superblock* superblock, uint64_t free,
                                enum run_preference preference) {
    if (preference == RUN_ANY) return free;
    uint64_t touched = atomic_get(&superblock->touched);
    return preference == RUN_WARM ? free & touched : free & ~touched;
}

// One search for a run within one superblock. It looks at few superblocks of each set and tries few
// compare-and-swaps; where that ended it early, what it did not find may be there all the same.
struct search {
    unsigned slices;
    unsigned room; // that many more must be free behind, which are not taken
    enum run_preference preference;
    unsigned tries; // what is left of them
    bool cut_short;
};

// Tries to take a run of this superblock whose slices are all as wished.
static struct run superblock_take(struct window* window, unsigned index,
                                  enum run_preference preference, struct search* search) {
    struct superblock* superblock = &window->superblocks[index];
    uint64_t free = atomic_get(&superblock->free);
    while (search->tries > 0) {
        uint64_t starts = bit_runs(eligible_slices(superblock, free, preference), search->slices);
        if (search->room > 0) starts &= bit_runs(free, search->slices + search->room);
        if (starts == 0) return run_none;
        unsigned first = bit_lowest(starts);
        uint64_t mask = bit_range(first, search->slices);
        search->tries--;
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) {
            return slices_take(superblock, mask, slice_address(window, index, first));
        }
    }
    search->cut_short = true;
    return run_none;
}

static bool superblock_is_dirty(struct superblock* superblock) {
    return (atomic_get_ordered(&superblock->free) & atomic_get_ordered(&superblock->touched)) != 0;
}

// Takes a superblock that has no slice free and touched out of the set of those that have.
static void dirty_correct(struct window* window, unsigned index) {
    if (superblock_is_dirty(&window->superblocks[index])) return;
    superblock_set_remove(&window->dirty, index);
    if (superblock_is_dirty(&window->superblocks[index])) superblock_set_add(&window->dirty, index);
}

// From superblocks that have slices free and touched. Those that turn out to have none leave the set,
// or all who come after would look there in vain, too.
static struct run dirty_take(struct window* window, struct search* search) {
    unsigned index = 0;
    for (unsigned probe = 0; probe < RUN_PROBES && search->tries > 0; probe++) {
        index = superblock_set_next(&window->dirty, index);
        if (index == WINDOW_SUPERBLOCKS) break;
        struct run run = superblock_take(window, index, RUN_WARM, search);
        if (run.start != NULL) return run;
        dirty_correct(window, index);
        index++;
    }
    return run_none;
}

// Looks through the superblocks filed under `bucket`; those that turn out not to belong there are
// unfiled.
static struct run bucket_take(struct window* window, unsigned bucket,
                              enum run_preference preference, struct search* search) {
    unsigned index = 0;
    for (unsigned probe = 0; search->tries > 0; probe++) {
        index = superblock_set_next(&window->by_run[bucket], index);
        if (index == WINDOW_SUPERBLOCKS) return run_none;
        if (probe == RUN_PROBES) break;
        struct run run = superblock_take(window, index, preference, search);
        if (run.start != NULL) return run;
        uint64_t free = atomic_get(&window->superblocks[index].free);
        if (free == 0 || bit_longest_log2(free) < bucket) superblock_unfile(window, index, bucket);
        index++;
    }
    search->cut_short = true;
    return run_none;
}

static struct run window_take(struct window* window, struct search* search) {
    unsigned slices = search->slices + search->room;
    unsigned bucket =
        slices == 1 ? 0 : bit_highest(slices - 1) + 1; // every run there is long enough
    struct run run = search->preference == RUN_COLD ? bucket_take(window, bucket, RUN_COLD, search)
                                                    : dirty_take(window, search);
    if (run.start == NULL && !is_power_of_two(slices))
        run = bucket_take(window, bucket - 1, RUN_ANY, search); // some runs there may be
    if (run.start == NULL) run = bucket_take(window, bucket, RUN_ANY, search);
    if (run.start == NULL && bucket < RUN_BUCKETS - 1) {
        run = bucket_take(window, RUN_BUCKETS - 1, RUN_ANY, search);
    }
    return run;
}

static struct run narrow_allocate(struct search* search) {
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        if (window == NULL) continue;
        search->tries = RUN_TRIES;
        struct run run = window_take(window, search);
        count_work(WORK_RUN_TRIES, RUN_TRIES - search->tries);
        if (run.start != NULL) return run;
    }
    return run_none;
}

// Looks at every superblock that may have a slice free, however many: for when the system gives
// nothing more and a search was cut short.
static struct run narrow_allocate_anywhere(struct search* search) {
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        if (window == NULL) continue;
        for (unsigned index = 0;; index++) {
            index = superblock_set_next(&window->by_run[0], index);
            if (index == WINDOW_SUPERBLOCKS) break;
            search->tries = RUN_TRIES;
            struct run run = superblock_take(window, index, RUN_ANY, search);
            if (run.start != NULL) return run;
        }
    }
    return run_none;
}

// Takes the slices of the mask, if all of them are free.
static bool part_take(struct superblock* superblock, uint64_t mask) {
    uint64_t free = atomic_get(&superblock->free);
    for (unsigned tries = 0; tries < RUN_TRIES && (free & mask) == mask; tries++) {
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) return true;
    }
    return false;
}

// What a run has in one superblock.
struct part {
    unsigned index;
    uint64_t mask;
};

// The first part of [*slice, *slice + *slices), which it is cut off from. False: nothing is left.
static bool part_next(size_t* slice, unsigned* slices, struct part* part) {
    if (*slices == 0) return false;
    unsigned first = (unsigned)(*slice % SUPERBLOCK_SLICES);
    unsigned here = SUPERBLOCK_SLICES - first < *slices ? SUPERBLOCK_SLICES - first : *slices;
    *part = (struct part){(unsigned)(*slice / SUPERBLOCK_SLICES), bit_range(first, here)};
    *slice += here;
    *slices -= here;
    return true;
}

static void range_give(struct window* window, size_t slice, unsigned slices) {
    struct part part;
    while (part_next(&slice, &slices, &part)) slices_give(window, part.index, part.mask);
}

// False: *failed is the first superblock that has not all of its part free.
static bool range_is_free(struct window* window, size_t slice, unsigned slices, unsigned* failed) {
    struct part part;
    while (part_next(&slice, &slices, &part)) {
        *failed = part.index;
        if ((~atomic_get(&window->superblocks[part.index].free) & part.mask) != 0) return false;
    }
    return true;
}

// Takes all slices from `slice` on, or none. If none, *failed is the superblock that is not as free
// as that takes.
static bool range_take(struct window* window, size_t slice, unsigned slices, struct run* run,
                       unsigned* failed) {
    *run = (struct run){window->base + slice * SLICE_BYTES, true, true};
    // First a look: what is taken and given back counts as touched from then on.
    if (!range_is_free(window, slice, slices, failed)) return false;
    size_t rest = slice;
    unsigned left = slices;
    for (struct part part; part_next(&rest, &left, &part);) {
        struct superblock* superblock = &window->superblocks[part.index];
        if (!part_take(superblock, part.mask)) {
            *failed = part.index;
            range_give(window, slice, slices - left - bit_count(part.mask));
            return false;
        }
        struct run taken = slices_take(superblock, part.mask, run->start);
        run->zero &= taken.zero;
        run->warm &= taken.warm;
    }
    return true;
}

static unsigned slices_warm(struct window* window, unsigned first, unsigned count) {
    unsigned warm = 0;
    for (unsigned i = 0; i < count; i++)
        warm += bit_count(atomic_get(&window->superblocks[first + i].touched));
    return warm;
}

// Of the places in the window where so many superblocks side by side are wholly free (within one word of the
// set), the one with the most warm slices; a wholly warm one ends the search. False: there is none.
static bool wide_place(struct window* window, unsigned count, unsigned* place) {
    unsigned looks = 0;
    unsigned most = 0;
    for (unsigned word = 0; word < SUPERBLOCK_SET_WORDS; word++) {
        uint64_t whole = atomic_get(&window->by_run[RUN_BUCKETS - 1].words[word]);
        uint64_t starts = bit_runs(whole, count);
        for (; starts != 0 && looks < WIDE_LOOKS; starts &= starts - 1) {
            unsigned first = word * 64 + bit_lowest(starts);
            unsigned warm = slices_warm(window, first, count);
            if (looks++ == 0 || warm > most) {
                most = warm;
                *place = first;
            }
            if (warm == count * SUPERBLOCK_SLICES) return true;
        }
    }
    return looks > 0;
}

static unsigned superblocks_for(unsigned slices) {
    return (slices + SUPERBLOCK_SLICES - 1) / SUPERBLOCK_SLICES;
}

// From the first slice of a superblock on, in superblocks that are wholly free; the room is as many
// more of them behind, which are not taken.
static struct run wide_allocate(unsigned slices, unsigned room_superblocks) {
    unsigned count = superblocks_for(slices) + room_superblocks;
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        unsigned first = 0;
        unsigned failed = 0;
        struct run run;
        for (unsigned tries = 0; window != NULL && tries < WIDE_TRIES; tries++) {
            if (!wide_place(window, count, &first)) break;
            if (range_take(window, (size_t)first * SUPERBLOCK_SLICES, slices, &run, &failed))
                return run;
            superblock_unfile(window, failed, RUN_BUCKETS - 1);
        }
    }
    return run_none;
}

// Three rounds: the first without growing; a new window may in theory be emptied by others before we
// look.
static struct run narrow_or_grow(unsigned slices, enum run_preference preference) {
    struct search search = {.slices = slices, .preference = preference};
    for (unsigned round = 0; round < 3; round++) {
        struct run run = narrow_allocate(&search);
        if (run.start != NULL) return run;
        if (!window_grow(1)) break;
    }
    return search.cut_short ? narrow_allocate_anywhere(&search) : run_none;
}

static struct run wide_or_grow(unsigned slices) {
    for (unsigned round = 0; round < 3; round++) {
        struct run run = wide_allocate(slices, 0);
        if (run.start != NULL) return run;
        if (!window_grow(superblocks_for(slices))) break;
    }
    return run_none;
}

static struct run run_count(struct run run, unsigned slices) {
    if (run.start == NULL) return run;
    if (slices <= RUN_NARROW) (void)atomic_add(&narrow_taken, slices);
    count_event(EVENT_RUN_ALLOCATED, 1);
    return run;
}

static struct run allocate(unsigned slices, enum run_preference preference) {
    return run_count(slices > SUPERBLOCK_SLICES ? wide_or_grow(slices)
                                                : narrow_or_grow(slices, preference),
                     slices);
}

struct run run_allocate(unsigned slices) {
    struct run run = arena_take_shared(slices, 1);
    return run.start != NULL ? run : allocate(slices, RUN_WARM);
}

struct run run_allocate_growing(unsigned slices) {
    struct run run = arena_take_shared(slices, 1);
    if (run.start != NULL) return run;
    if (slices <= SUPERBLOCK_SLICES / 2) {
        struct search search = {.slices = slices, .room = slices, .preference = RUN_WARM};
        run = narrow_allocate(&search);
    } else {
        run = wide_allocate(slices, superblocks_for(slices));
    }
    return run.start != NULL ? run_count(run, slices) : allocate(slices, RUN_WARM);
}

struct run run_allocate_narrow(unsigned slices, enum run_preference preference) {
    struct run run = arena_take_shared(slices, 1);
    return run.start != NULL ? run : allocate(slices, preference);
}

// Gives slices back without accounting a run: parts of one, or the whole.
static void slices_release(char* start, unsigned slices) {
    struct arena* arena = arena_of(start);
    if (arena != NULL) {
        arena_release(arena, start, slices);
        return;
    }
    struct window* window = window_find(start);
    range_give(window, (size_t)(start - window->base) / SLICE_BYTES, slices);
}

void run_release(char* start, unsigned slices) {
    slices_release(start, slices);
    count_event(EVENT_RUN_RELEASED, 1);
}

struct run run_allocate_aligned(unsigned slices, unsigned alignment_slices) {
    unsigned surplus = alignment_slices - 1;
    struct run run = run_allocate(slices + surplus);
    if (run.start == NULL || surplus == 0) return run;
    char* aligned = (char*)round_up((uintptr_t)run.start, alignment_slices * SLICE_BYTES);
    unsigned before = (unsigned)((size_t)(aligned - run.start) / SLICE_BYTES);
    if (before > 0) slices_release(run.start, before);
    if (surplus > before) slices_release(aligned + slices * SLICE_BYTES, surplus - before);
    run.start = aligned;
    return run;
}

#define HUGE_MASK bit_range(0, HUGE_SLICES)

static bool in_huge_zone(struct window* window, unsigned index) {
    return index >= HUGE_ZONE_FIRST && atomic_get(&window->whole) != 0;
}

// Units of the huge zone that lie in the mask.
static uint64_t units_in(uint64_t mask) {
    uint64_t units = 0;
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        if ((mask & HUGE_MASK << first) == HUGE_MASK << first) units |= HUGE_MASK << first;
    }
    return units;
}

// Nobody can touch them until they are populated again.
static void units_close(struct window* window, unsigned index, uint64_t units) {
    (void)atomic_and_ordered(&window->superblocks[index].open, ~units);
    superblock_set_add(&window->closed, index);
}

// In the huge zone whole units are closed, or the next thread that touches one would take the fault that
// zeroes 2 MiB; the rest of a unit has neighbours that keep its page table, and counts as touched still.
static void part_give_empty(struct window* window, unsigned index, uint64_t mask) {
    struct superblock* superblock = &window->superblocks[index];
    bool huge = in_huge_zone(window, index);
    uint64_t closing = huge ? units_in(mask) : 0;
    uint64_t empty = huge ? closing : mask;
    (void)atomic_and_ordered(&superblock->touched, ~empty);
    (void)atomic_sub(&live_slices, (int64_t)bit_count(empty));
    if (closing != 0) units_close(window, index, closing);
    if ((mask & ~empty) != 0) slices_give(window, index, mask & ~empty);
    if ((empty & ~closing) == 0) return;
    uint64_t before = atomic_or_ordered(&superblock->free, empty);
    superblock_file(window, index, before, before | empty);
}

void run_release_empty(char* start, unsigned slices) {
    struct window* window = window_find(start);
    size_t slice = (size_t)(start - window->base) / SLICE_BYTES;
    struct part part;
    while (part_next(&slice, &slices, &part)) part_give_empty(window, part.index, part.mask);
    count_event(EVENT_RUN_RELEASED, 1);
}

bool run_extend(char* start, unsigned slices, unsigned new_slices) {
    if (arena_of(start) != NULL) return false; // behind its end may lie slices of ours
    struct window* window = window_find(start);
    size_t slice = (size_t)(start - window->base) / SLICE_BYTES;
    if (slice + new_slices > WINDOW_SLICES) return false;
    struct run run;
    unsigned failed;
    return range_take(window, slice + slices, new_slices - slices, &run, &failed);
}

// The highest free and touched, or the lowest free and untouched, run of at most slices_max slices
// in this superblock, taken. 0: none, or contended.
static uint64_t superblock_take_free(struct superblock* superblock, unsigned slices_max,
                                     bool dirty) {
    uint64_t free = atomic_get_ordered(&superblock->free);
    for (unsigned tries = 0; tries < RUN_TRIES; tries++) {
        uint64_t touched = atomic_get_ordered(&superblock->touched);
        uint64_t eligible = dirty ? free & touched : free & ~touched;
        if (eligible == 0) return 0;
        unsigned first = bit_lowest(eligible);
        unsigned end;
        if (dirty) {
            end = bit_highest(eligible) + 1;
            uint64_t gaps = ~eligible & bit_range(0, end);
            first = gaps == 0 ? 0 : bit_highest(gaps) + 1;
            if (end - first > slices_max) first = end - slices_max;
        } else {
            uint64_t gaps = ~eligible & (~UINT64_C(0) << first);
            end = gaps == 0 ? 64 : bit_lowest(gaps);
            if (end - first > slices_max) end = first + slices_max;
        }
        uint64_t mask = bit_range(first, end - first);
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) return mask;
    }
    return 0;
}

static struct free_run free_run_of(struct window* window, unsigned index, uint64_t mask) {
    return (struct free_run){slice_address(window, index, bit_lowest(mask)), bit_count(mask)};
}

// A unit that is wholly free and occupies memory, taken. 0: none.
static uint64_t superblock_take_unit(struct superblock* superblock) {
    uint64_t free = atomic_get_ordered(&superblock->free);
    uint64_t touched = atomic_get_ordered(&superblock->touched);
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        uint64_t mask = HUGE_MASK << first;
        if ((free & mask) != mask || (touched & mask) == 0) continue;
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) return mask;
    }
    return 0;
}

// From the highest superblocks below `end` on, at most RUN_PROBES of them.
static struct free_run dirty_take_below(struct window* window, unsigned end, unsigned slices_max) {
    for (unsigned probe = 0; probe < RUN_PROBES && end > 0; probe++) {
        unsigned index = superblock_set_last(&window->dirty, end);
        if (index == WINDOW_SUPERBLOCKS) break;
        struct superblock* superblock = &window->superblocks[index];
        bool units = in_huge_zone(window, index) && slices_max >= HUGE_SLICES / 2;
        uint64_t mask = units ? superblock_take_unit(superblock)
                              : superblock_take_free(superblock, slices_max, true);
        if (mask != 0) return free_run_of(window, index, mask);
        end = index;
        dirty_correct(window, index);
    }
    return (struct free_run){NULL, 0};
}

struct free_run run_take_dirty(unsigned slices_max) {
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        if (window == NULL) continue;
        struct free_run run = dirty_take_below(window, WINDOW_SUPERBLOCKS, slices_max);
        if (run.slices == 0) run = dirty_take_below(window, HUGE_ZONE_FIRST, slices_max);
        if (run.slices != 0) return run;
    }
    return (struct free_run){NULL, 0};
}

// A unit that is not open, opened but not free: only the caller knows of it. 0: none.
static uint64_t superblock_take_closed(struct superblock* superblock) {
    for (unsigned first = 0; first < SUPERBLOCK_SLICES; first += HUGE_SLICES) {
        uint64_t mask = HUGE_MASK << first;
        if ((atomic_get(&superblock->open) & mask) != 0) continue;
        if ((atomic_or_ordered(&superblock->open, mask) & mask) == 0) return mask;
    }
    return 0;
}

struct free_run run_take_closed(void) {
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        if (window == NULL) continue;
        unsigned index = HUGE_ZONE_FIRST;
        for (unsigned probe = 0; probe < RUN_PROBES; probe++, index++) {
            index = superblock_set_next(&window->closed, index);
            if (index == WINDOW_SUPERBLOCKS) break;
            uint64_t mask = superblock_take_closed(&window->superblocks[index]);
            if (mask != 0) return free_run_of(window, index, mask);
            superblock_set_remove(&window->closed, index);
            if (atomic_get_ordered(&window->superblocks[index].open) != ~UINT64_C(0))
                superblock_set_add(&window->closed, index);
        }
    }
    return (struct free_run){NULL, 0};
}

struct free_run run_take_cold(unsigned slices_max) {
    for (size_t i = 0; i < atomic_get(&windows.count) && i < WINDOWS_MAX; i++) {
        struct window* window = window_at(i);
        unsigned index = 0;
        for (; window != NULL; index++) {
            index = superblock_set_next(&window->by_run[0], index);
            if (index == WINDOW_SUPERBLOCKS) break;
            uint64_t mask = superblock_take_free(&window->superblocks[index], slices_max, false);
            if (mask != 0) return free_run_of(window, index, mask);
        }
    }
    return (struct free_run){NULL, 0};
}

void run_return(struct free_run run, enum run_state state) {
    struct window* window = window_find(run.start);
    size_t slice = (size_t)(run.start - window->base) / SLICE_BYTES;
    unsigned index = (unsigned)(slice / SUPERBLOCK_SLICES);
    uint64_t mask = bit_range((unsigned)(slice % SUPERBLOCK_SLICES), run.slices);
    struct superblock* superblock = &window->superblocks[index];
    int64_t touched = (int64_t)bit_count(atomic_get(&superblock->touched) & mask);
    if (state == RUN_DISCARDED) {
        (void)atomic_and_ordered(&superblock->touched, ~mask);
        (void)atomic_and_ordered(&superblock->zero, ~mask);
        (void)atomic_sub(&dirty_slices, touched);
        if (in_huge_zone(window, index) && run.slices == HUGE_SLICES) {
            units_close(window, index, mask);
            return;
        }
    } else if (state == RUN_POPULATED) {
        (void)atomic_or_ordered(&superblock->touched, mask);
        (void)atomic_or_ordered(&superblock->zero, mask);
        (void)atomic_add(&dirty_slices, (int64_t)run.slices - touched);
    }
    uint64_t before = atomic_or_ordered(&superblock->free, mask);
    superblock_file(window, index, before, before | mask);
    if (superblock_is_dirty(superblock)) superblock_set_add(&window->dirty, index);
}

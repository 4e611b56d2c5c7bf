// Searching for runs and taking them.
#include "allocator/space/run.h"
#include "allocator/space/arena.h"
#include "allocator/space/huge_unit.h"
#include "allocator/space/range.h"
#include "allocator/space/superblock.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/panic.h"
#include "base/random.h"
#include "os/process.h"
#include <limits.h>

#define RUN_WINDOWS 8u   // windows that one search of a bucket looks at
#define WIDE_WINDOWS 64u // the same for a run of several superblocks
#define WIDE_LOOKS 64u   // places compared for a run of several superblocks
#define WIDE_TRIES 128u  // each failed try has removed a superblock from a set

static const struct run run_none = {NULL, false, false, 0};

size_t run_narrow_taken(void) {
    return event_total(EVENT_SLICES_TAKEN);
}

size_t run_narrow_missed(void) {
    return atomic_get(&slice_counts.narrow_missed);
}

size_t run_cold_taken(void) {
    return atomic_get(&slice_counts.cold);
}

// --- Runs within one superblock ------------------------------------------------------------------

static uint64_t eligible_slices(struct superblock* superblock, uint64_t free,
                                enum run_preference preference) {
    return preference == RUN_WARM ? free & atomic_get(&superblock->touched) : free;
}

// One search. It looks at few superblocks of each set and tries few compare-and-swaps; if a bound
// ended it early (cut_short), there may be a run that it has not found.
struct search {
    unsigned slices;
    unsigned room;      // this many more slices must be free behind the run; they are not taken
    unsigned alignment; // the run begins at a multiple of so many slices
    enum run_preference preference;
    unsigned bucket;  // the lowest one in which all runs are long enough
    unsigned lowest;  // the lowest one in which some may be
    unsigned tries;   // compare-and-swaps left
    unsigned windows; // searched so far
    bool cut_short;
};

// The lowest place; in the secure flavour one of the lowest 8, at random. Threads may draw the same
// number.
static unsigned start_choose(uint64_t starts) {
    KEEL_ASSERT(starts != 0);
    static atomic_bits state;
    if (!KEEL_SECURE) return bit_lowest(starts);
    uint64_t drawn = atomic_get(&state);
    if (drawn == 0) drawn = os_random();
    unsigned skipped = (unsigned)(random_next(&drawn) % 8);
    atomic_set(&state, drawn);
    for (; skipped > 0 && (starts & (starts - 1)) != 0; skipped--) starts &= starts - 1;
    return bit_lowest(starts);
}

// Tries to take a run of this superblock whose slices all have the preferred state.
static struct run superblock_take(struct window* window, unsigned index,
                                  enum run_preference preference, struct search* search) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && is_power_of_two(search->alignment));
    KEEL_ASSERT(search->slices > 0 && search->slices + search->room <= SUPERBLOCK_SLICES);
    struct superblock* superblock = &window->superblocks[index];
    uint64_t free = atomic_get(&superblock->free);
    while (search->tries > 0) {
        uint64_t starts = bit_runs(eligible_slices(superblock, free, preference), search->slices);
        if (search->room > 0) starts &= bit_runs(free, search->slices + search->room);
        if (search->alignment > 1) starts &= bit_multiples(search->alignment);
        if (starts == 0) return run_none;
        unsigned first = start_choose(starts);
        uint64_t mask = bit_range(first, search->slices);
        search->tries--;
        if (atomic_try_bits(&superblock->free, &free, free & ~mask)) {
            return slices_take(superblock, mask, slice_address(window, index, first));
        }
    }
    search->cut_short = true;
    return run_none;
}

// Removes the superblock from the bucket if it does not belong there.
static void superblock_correct_bucket(struct window* window, unsigned index, unsigned bucket) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && bucket < RUN_BUCKETS);
    uint64_t free = atomic_get(&window->superblocks[index].free);
    if (free == 0 || bit_longest_log2(free) < bucket) superblock_unfile(window, index, bucket);
}

// The lowest superblock from `index` on that may have both slices free and touched, and a free run
// of this bucket.
static unsigned dirty_next(struct window* window, unsigned bucket, unsigned index) {
    KEEL_ASSERT(bucket < RUN_BUCKETS && index <= WINDOW_SUPERBLOCKS);
    uint64_t mask = ~UINT64_C(0) << (index % 64);
    for (unsigned word = index / 64; word < WINDOW_SUPERBLOCKS / 64; word++) {
        uint64_t found = atomic_get(&window_set(window, SET_DIRTY)->words[word]) &
                         atomic_get(&window_set(window, SET_RUNS + bucket)->words[word]) & mask;
        if (found != 0) return word * 64 + bit_lowest(found);
        mask = ~UINT64_C(0);
    }
    return WINDOW_SUPERBLOCKS;
}

// Searches superblocks that may have slices free and touched. A superblock that has none leaves the
// set, so that later searches do not look there again.
static struct run dirty_take(struct window* window, struct search* search) {
    unsigned index = 0;
    for (unsigned probe = 0; probe < RUN_PROBES && search->tries > 0; probe++) {
        index = dirty_next(window, search->lowest, index);
        if (index >= WINDOW_SUPERBLOCKS) break;
        struct run run = superblock_take(window, index, RUN_WARM, search);
        if (run.start != NULL) return run;
        superblock_correct_dirty(window, index);
        superblock_correct_bucket(window, index, search->lowest);
        index++;
    }
    return run_none;
}

// Searches the superblocks filed under `bucket`. A superblock that does not belong there is
// unfiled.
static struct run bucket_take(struct window* window, unsigned bucket,
                              enum run_preference preference, struct search* search) {
    KEEL_ASSERT(bucket < RUN_BUCKETS);
    unsigned index = 0;
    for (unsigned probe = 0; search->tries > 0; probe++) {
        index = index_set_next(window_set(window, SET_RUNS + bucket), index);
        if (index >= WINDOW_SUPERBLOCKS) return run_none;
        if (preference == RUN_SMALL && superblock_in_huge_zone(window, index)) return run_none;
        if (probe == RUN_PROBES) break;
        struct run run = superblock_take(window, index, preference, search);
        if (run.start != NULL) return run;
        superblock_correct_bucket(window, index, bucket);
        index++;
    }
    search->cut_short = true;
    return run_none;
}

static struct run window_take(struct window* window, struct search* search) {
    KEEL_ASSERT(search->lowest <= search->bucket && search->bucket < RUN_BUCKETS);
    unsigned bucket = search->bucket;
    enum run_preference any = search->preference == RUN_SMALL ? RUN_SMALL : RUN_ANY;
    struct run run = run_none;
    search->tries = RUN_TRIES;
    if (KEEL_COUNT) search->windows++;
    if (search->preference == RUN_WARM) run = dirty_take(window, search);
    if (run.start == NULL && bucket != search->lowest)
        run = bucket_take(window, bucket - 1, any, search);
    if (run.start == NULL) run = bucket_take(window, bucket, any, search);
    if (run.start == NULL && bucket < RUN_BUCKETS - 1)
        run = bucket_take(window, RUN_BUCKETS - 1, any, search);
    count_work(WORK_RUN_TRIES, RUN_TRIES - search->tries);
    return run;
}

// The window listed last, which the address space grows in. NULL: it is another partition's.
static struct window* window_last(void) {
    KEEL_ASSERT(atomic_get(&windows.count) > 0);
    struct window* last = window_at(atomic_get(&windows.count) - 1);
    return window_partition(last) == partition_now() ? last : NULL;
}

// Searches at most RUN_WINDOWS windows that have a superblock in the bucket: the first ones, and
// where there are more the last one, which has room after the address space has grown.
static struct run windows_take(unsigned bucket, struct search* search) {
    KEEL_ASSERT(bucket < RUN_BUCKETS && partition_now() < PARTITION_COUNT);
    unsigned number = 0;
    for (unsigned look = 1; look < RUN_WINDOWS; look++, number++) {
        struct window* window = window_next(partition_now(), SET_RUNS + bucket, &number);
        if (window == NULL) return run_none;
        struct run run = window_take(window, search);
        if (run.start != NULL) return run;
    }
    search->cut_short = true;
    struct window* last = window_last();
    return last != NULL ? window_take(last, search) : run_none;
}

// The lowest bucket in which all runs are long enough.
static unsigned bucket_of_all(unsigned slices) {
    KEEL_ASSERT(slices > 0 && slices <= SUPERBLOCK_SLICES);
    return slices == 1 ? 0 : bit_highest(slices - 1) + 1;
}

// First where some runs may be long enough, then where all are.
static struct run narrow_allocate(struct search* search) {
    unsigned slices = search->slices + search->room;
    // So long a run has an aligned place wherever it begins, and so has a whole superblock.
    unsigned enough = slices + search->alignment - 1;
    search->bucket = bucket_of_all(enough < SUPERBLOCK_SLICES ? enough : SUPERBLOCK_SLICES);
    search->lowest = bit_highest(slices);
    KEEL_ASSERT(search->bucket - search->lowest <= 1 || search->alignment > 1);
    // The buckets between, where an aligned run may be, are not searched.
    if (search->bucket - search->lowest > 1) search->cut_short = true;
    search->windows = 0;
    struct run run = windows_take(search->lowest, search);
    if (run.start == NULL && search->bucket != search->lowest)
        run = windows_take(search->bucket, search);
    count_work(WORK_RUN_WINDOWS, search->windows);
    return run;
}

// Looks at every superblock that may have a free slice. Unbounded: for when the system refuses
// memory and a search was cut short.
static struct run narrow_allocate_anywhere(struct search* search) {
    unsigned number = 0;
    struct window* window;
    for (; (window = window_next(partition_now(), SET_RUNS, &number)) != NULL; number++) {
        for (unsigned index = 0;; index++) {
            index = index_set_next(window_set(window, SET_RUNS), index);
            if (index >= WINDOW_SUPERBLOCKS) break;
            search->tries = RUN_TRIES;
            struct run run = superblock_take(window, index, RUN_ANY, search);
            if (run.start != NULL) return run;
        }
    }
    return run_none;
}

// --- Runs of several superblocks -----------------------------------------------------------------

static unsigned slices_warm(struct window* window, unsigned first, unsigned count) {
    KEEL_ASSERT(count <= WINDOW_SUPERBLOCKS && first <= WINDOW_SUPERBLOCKS - count);
    unsigned warm = 0;
    for (unsigned i = 0; i < count; i++)
        warm += bit_count(atomic_get(&window->superblocks[first + i].touched));
    return warm;
}

// Finds `count` adjacent superblocks that are wholly free (within one word of the set): of the
// places compared, the one with the most warm slices; a wholly warm place ends the search. False:
// none.
static bool wide_place(struct window* window, unsigned count, unsigned* place) {
    KEEL_ASSERT(count > 0 && count <= 64);
    unsigned looks = 0;
    unsigned most = 0;
    for (unsigned word = 0; word < WINDOW_SUPERBLOCKS / 64; word++) {
        uint64_t whole = atomic_get(&window_set(window, SET_RUNS + RUN_BUCKETS - 1)->words[word]);
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
    KEEL_ASSERT(slices > 0);
    return (slices + SUPERBLOCK_SLICES - 1) / SUPERBLOCK_SLICES;
}

static struct run window_take_wide(struct window* window, unsigned slices, unsigned count) {
    KEEL_ASSERT(count >= superblocks_for(slices));
    unsigned first = 0;
    unsigned failed = 0;
    struct run run;
    for (unsigned tries = 0; tries < WIDE_TRIES; tries++) {
        if (!wide_place(window, count, &first)) break;
        if (range_take(window, (size_t)first * SUPERBLOCK_SLICES, slices, &run, &failed)) {
            for (unsigned i = 0; i < superblocks_for(slices); i++)
                superblock_unfile_taken(window, first + i);
            return run;
        }
        superblock_unfile(window, failed, RUN_BUCKETS - 1);
    }
    return run_none;
}

// Takes a run that begins with a superblock, in superblocks that are wholly free. room_superblocks
// more must be free behind it; they are not taken. Looks at the lowest `looks` windows that may
// have such a superblock.
static struct run wide_allocate(unsigned slices, unsigned room_superblocks, unsigned looks) {
    unsigned count = superblocks_for(slices) + room_superblocks;
    unsigned number = 0;
    for (; looks > 0; looks--, number++) {
        struct window* window = window_next(partition_now(), SET_RUNS + RUN_BUCKETS - 1, &number);
        if (window == NULL) return run_none;
        struct run run = window_take_wide(window, slices, count);
        if (run.start != NULL) return run;
    }
    struct window* last = window_last();
    return last != NULL ? window_take_wide(last, slices, count) : run_none;
}

// --- Allocation ----------------------------------------------------------------------------------

// Three rounds: the first without growing. In theory other threads may empty a new window before
// this thread searches it.
static struct run narrow_or_grow(unsigned slices, unsigned alignment,
                                 enum run_preference preference) {
    KEEL_ASSERT(slices > 0 && slices <= SUPERBLOCK_SLICES && alignment <= SUPERBLOCK_SLICES);
    struct search search = {.slices = slices, .alignment = alignment, .preference = preference};
    for (unsigned round = 0; round < 3; round++) {
        struct run run = narrow_allocate(&search);
        if (run.start != NULL) return run;
        if (!window_grow(1) && (preference == RUN_SMALL || !run_open_closed())) break;
    }
    if (preference == RUN_SMALL) return narrow_or_grow(slices, alignment, RUN_ANY);
    return search.cut_short ? narrow_allocate_anywhere(&search) : run_none;
}

static struct run wide_or_grow(unsigned slices) {
    KEEL_ASSERT(slices > SUPERBLOCK_SLICES && slices <= RUN_SLICES_MAX);
    for (unsigned round = 0; round < 3; round++) {
        struct run run = wide_allocate(slices, 0, WIDE_WINDOWS);
        if (run.start != NULL) return run;
        if (!window_grow(superblocks_for(slices))) break;
    }
    return wide_allocate(slices, 0, UINT_MAX);
}

static struct run run_count(struct run run, unsigned slices) {
    KEEL_ASSERT((uintptr_t)run.start % SLICE_BYTES == 0 && slices > 0);
    if (run.start == NULL) return run;
    if (slices <= RUN_NARROW) count_event(EVENT_SLICES_TAKEN, slices);
    return run;
}

static struct run allocate(unsigned slices, unsigned alignment, enum run_preference preference) {
    KEEL_ASSERT(slices > 0 && slices <= RUN_SLICES_MAX);
    KEEL_ASSERT(slices <= SUPERBLOCK_SLICES || alignment == 1);
    struct run run = slices > SUPERBLOCK_SLICES ? wide_or_grow(slices)
                                                : narrow_or_grow(slices, alignment, preference);
    if (!run.warm && preference == RUN_WARM && slices <= RUN_NARROW)
        (void)atomic_add(&slice_counts.narrow_missed, slices);
    return run_count(run, slices);
}

struct run run_allocate(unsigned slices) {
    struct run run = arena_take_shared(slices, 1);
    return run.start != NULL ? run : allocate(slices, 1, RUN_WARM);
}

// Finds `count` adjacent superblocks that are wholly free and wholly warm. False: none among the
// places compared.
static bool wide_warm_place(struct window* window, unsigned count, unsigned* place) {
    KEEL_ASSERT(count > 0 && count <= 64);
    unsigned looks = 0;
    for (unsigned word = 0; word < WINDOW_SUPERBLOCKS / 64; word++) {
        uint64_t dirty = atomic_get(&window_set(window, SET_DIRTY)->words[word]);
        if (dirty == 0) continue;
        uint64_t whole = atomic_get(&window_set(window, SET_RUNS + RUN_BUCKETS - 1)->words[word]);
        uint64_t starts = bit_runs(whole & dirty, count);
        for (; starts != 0 && looks < WIDE_LOOKS; starts &= starts - 1, looks++) {
            *place = word * 64 + bit_lowest(starts);
            if (slices_warm(window, *place, count) == count * SUPERBLOCK_SLICES) return true;
        }
    }
    return false;
}

static struct run wide_take_warm(struct window* window, unsigned slices) {
    KEEL_ASSERT(slices > SUPERBLOCK_SLICES);
    unsigned first;
    unsigned failed;
    struct run run;
    for (unsigned tries = 0; tries < WIDE_TRIES; tries++) {
        if (!wide_warm_place(window, superblocks_for(slices), &first)) break;
        if (range_take(window, (size_t)first * SUPERBLOCK_SLICES, slices, &run, &failed))
            return run;
        superblock_unfile(window, failed, RUN_BUCKETS - 1);
    }
    return run_none;
}

struct run run_allocate_warm(unsigned slices) {
    KEEL_ASSERT(slices > 0 && slices <= RUN_SLICES_MAX);
    struct run run = arena_take_shared(slices, 1);
    if (run.start != NULL || run_dirty_slices() < slices) return run;
    struct search search = {
        .slices = slices, .alignment = 1, .preference = RUN_WARM, .lowest = RUN_BUCKETS - 1};
    if (slices <= SUPERBLOCK_SLICES) search.lowest = bit_highest(slices);
    unsigned number = 0;
    for (unsigned look = 0; look < WIDE_WINDOWS; look++, number++) {
        struct window* window = window_next(partition_now(), SET_DIRTY, &number);
        if (window == NULL) break;
        search.tries = RUN_TRIES;
        run = slices > SUPERBLOCK_SLICES ? wide_take_warm(window, slices)
                                         : dirty_take(window, &search);
        KEEL_ASSERT(run.start == NULL || run.warm);
        if (run.start != NULL) return run_count(run, slices);
    }
    return run_none;
}

struct run run_allocate_mapped(unsigned slices, bool everywhere) {
    KEEL_ASSERT(slices > 0 && slices <= SUPERBLOCK_SLICES);
    struct search search = {.slices = slices, .alignment = 1, .preference = RUN_WARM};
    struct run run = everywhere ? narrow_allocate_anywhere(&search) : narrow_allocate(&search);
    return run_count(run, slices);
}

static struct run allocate_with_room(unsigned slices) {
    KEEL_ASSERT(slices > 0 && slices <= RUN_SLICES_MAX);
    if (slices > SUPERBLOCK_SLICES / 2)
        return wide_allocate(slices, superblocks_for(slices), WIDE_WINDOWS);
    struct search search = {
        .slices = slices, .room = slices, .alignment = 1, .preference = RUN_WARM};
    return narrow_allocate(&search);
}

struct run run_allocate_growing(unsigned slices) {
    struct run run = arena_take_shared(slices, 1);
    if (run.start != NULL) return run;
    run = allocate_with_room(slices);
    if (run.start == NULL &&
        window_grow(slices > SUPERBLOCK_SLICES / 2 ? 2 * superblocks_for(slices) : 1))
        run = allocate_with_room(slices);
    return run.start != NULL ? run_count(run, slices) : allocate(slices, 1, RUN_WARM);
}

struct run run_allocate_narrow(unsigned slices, enum run_preference preference) {
    return run_allocate_aligned(slices, 1, preference);
}

struct run run_allocate_aligned(unsigned slices, unsigned alignment,
                                enum run_preference preference) {
    KEEL_ASSERT(slices > 0 && is_power_of_two(alignment));
    struct run run = arena_take_shared(slices, alignment);
    return run.start != NULL ? run : allocate(slices, alignment, preference);
}

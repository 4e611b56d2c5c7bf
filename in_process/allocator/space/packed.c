#include "allocator/space/packed.h"
#include "allocator/space/range.h"
#include "allocator/space/superblock.h"
#include "base/counters.h"
#include "base/panic.h"
#include <limits.h>

#define SLICE_UNITS ((unsigned)(SLICE_BYTES / PACKED_UNIT))

static const struct run packed_none = {NULL, false, false, 0};

// --- The word `shared` ---------------------------------------------------------------------------
//
//   | end: bits 0..15 | start: bits 16..31 | zero: bit 32 |
//
//   end    units at the slice's front, of a block that begins in an earlier slice; 0: none
//   start  unit at which a block begins that ends in a later slice; 0: none
//   zero   the room is all zero
//
// Both are 1..SLICE_UNITS - 1, and end <= start. A slice with only one of them has room.

struct share {
    unsigned end;
    unsigned start;
    bool zero;
};

static uint64_t share_word(struct share share) {
    KEEL_ASSERT(share.end < SLICE_UNITS && share.start < SLICE_UNITS);
    if (share.end == 0 && share.start == 0) return 0;
    return share.end | (uint64_t)share.start << 16 | (uint64_t)share.zero << 32;
}

static struct share share_of(uint64_t word) {
    return (struct share){(unsigned)(word & 0xffff), (unsigned)(word >> 16 & 0xffff),
                          (word >> 32 & 1) != 0};
}

static atomic_bits* shared_at(const struct window* window, size_t slice) {
    KEEL_ASSERT(slice < WINDOW_SLICES);
    return &page_remote(page_of(window->base + slice * SLICE_BYTES))->shared;
}

// --- Where there is room -------------------------------------------------------------------------
//
// Hints by the protocol of index_set.h: `room_behind` and `room_before` about the words, the set of
// superblocks about those two.

static bool has_room(uint64_t word, bool behind) {
    struct share share = share_of(word);
    return behind ? share.end != 0 && share.start == 0 : share.start != 0 && share.end == 0;
}

static atomic_bits* rooms_of(struct window* window, unsigned superblock, bool behind) {
    KEEL_ASSERT(superblock < WINDOW_SUPERBLOCKS);
    return behind ? &window->room_behind[superblock] : &window->room_before[superblock];
}

static void room_add(struct window* window, size_t slice, bool behind) {
    KEEL_ASSERT(slice < WINDOW_SLICES);
    unsigned superblock = (unsigned)(slice / SUPERBLOCK_SLICES);
    (void)atomic_or_ordered(rooms_of(window, superblock, behind),
                            UINT64_C(1) << (slice % SUPERBLOCK_SLICES));
    window_set_add(window, SET_ROOM, superblock);
}

static void room_remove(struct window* window, size_t slice, bool behind) {
    KEEL_ASSERT(slice < WINDOW_SLICES);
    unsigned superblock = (unsigned)(slice / SUPERBLOCK_SLICES);
    (void)atomic_and_ordered(rooms_of(window, superblock, behind),
                             ~(UINT64_C(1) << (slice % SUPERBLOCK_SLICES)));
    if (has_room(atomic_get_ordered(shared_at(window, slice)), behind))
        room_add(window, slice, behind);
}

static bool superblock_has_room(struct window* window, unsigned index) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS);
    return (atomic_get_ordered(&window->room_behind[index]) |
            atomic_get_ordered(&window->room_before[index])) != 0;
}

static void superblock_correct_room(struct window* window, unsigned index) {
    if (superblock_has_room(window, index)) return;
    window_set_remove(window, SET_ROOM, index);
    if (superblock_has_room(window, index)) window_set_add(window, SET_ROOM, index);
}

// The slice, which the caller owns, is used by this block alone.
static void share_begin(struct window* window, size_t slice, struct share share) {
    KEEL_ASSERT((share.end != 0) != (share.start != 0));
    KEEL_ASSERT(atomic_get(shared_at(window, slice)) == 0);
    (void)atomic_or_ordered(shared_at(window, slice), share_word(share)); // it was 0
    room_add(window, slice, share.end != 0);
}

// Takes room: changes the word from `before` to `after`, which has both users. False: another
// thread has changed it.
static bool share_join(struct window* window, size_t slice, uint64_t before, struct share after) {
    KEEL_ASSERT(before != 0 && after.start != 0 && after.end != 0);
    KEEL_ASSERT(after.end <= after.start);
    uint64_t expected = before;
    if (!atomic_try_ordered(shared_at(window, slice), &expected, share_word(after))) return false;
    room_remove(window, slice, share_of(before).end != 0);
    return true;
}

// A user leaves: the block that ends in the slice, or the one that begins there. `zero`: it has
// written nothing. True: the slice has no user left and belongs to the caller.
static bool share_leave(struct window* window, size_t slice, bool ending, bool zero) {
    uint64_t word = atomic_get(shared_at(window, slice));
    struct share share;
    do {
        share = share_of(word);
        KEEL_ASSERT(ending ? share.end != 0 : share.start != 0);
        if (ending)
            share.end = 0;
        else
            share.start = 0;
        share.zero = share.zero && zero;
    } while (!atomic_try_ordered(shared_at(window, slice), &word, share_word(share)));
    if (share_word(share) == 0) {
        room_remove(window, slice, !ending);
        return true;
    }
    room_add(window, slice, share.end != 0);
    return false;
}

// --- Places --------------------------------------------------------------------------------------

// A place for a block: the units from `start` on, counted in the window.
struct place {
    struct window* window;
    size_t start;
    size_t units;
    uint64_t joins_behind; // not 0: it begins in the room of its first slice, which has this word
    uint64_t joins_before; // not 0: it ends in the room of its last slice, which has this word
};

// The slices that it takes whole.
struct slices {
    size_t first;
    unsigned count;
};

static struct slices place_slices(const struct place* place) {
    size_t first = place->start / SLICE_UNITS + (place->joins_behind != 0);
    size_t end = (place->start + place->units + SLICE_UNITS - 1) / SLICE_UNITS;
    KEEL_ASSERT(end >= first + (place->joins_before != 0));
    return (struct slices){first, (unsigned)(end - first) - (place->joins_before != 0)};
}

// The number of free slices in succession from `slice` on, at most `most`.
static unsigned free_from(struct window* window, size_t slice, unsigned most) {
    unsigned count = 0;
    while (count < most && slice < WINDOW_SLICES) {
        unsigned first = (unsigned)(slice % SUPERBLOCK_SLICES);
        uint64_t taken = ~atomic_get(&window->superblocks[slice / SUPERBLOCK_SLICES].free) >> first;
        unsigned here = SUPERBLOCK_SLICES - first;
        unsigned free = taken == 0 ? here : bit_lowest(taken);
        count += free;
        if (free < here) break;
        slice += here;
    }
    return count < most ? count : most;
}

// A place that begins in the room behind a block's end. False: there is none at this slice.
static bool place_behind(struct place* place, size_t slice) {
    KEEL_ASSERT(slice < WINDOW_SLICES && place->units > SLICE_UNITS);
    struct window* window = place->window;
    uint64_t word = atomic_get_acquire(shared_at(window, slice));
    if (!has_room(word, true)) {
        room_remove(window, slice, true);
        return false;
    }
    unsigned end = share_of(word).end;
    size_t rest = place->units - (SLICE_UNITS - end);
    unsigned whole = (unsigned)(rest / SLICE_UNITS);
    unsigned tail = (unsigned)(rest % SLICE_UNITS);
    unsigned free = free_from(window, slice + 1, whole + (tail != 0));
    place->start = slice * SLICE_UNITS + end;
    place->joins_behind = word;
    place->joins_before = 0;
    if (free == whole + (tail != 0)) return true;
    size_t last = slice + 1 + whole;
    if (free < whole || last >= WINDOW_SLICES) return false;
    word = atomic_get_acquire(shared_at(window, last));
    place->joins_before = word;
    return has_room(word, false) && share_of(word).start >= tail;
}

// The same for one that ends in the room before a block's start, and takes free slices before it.
static bool place_before(struct place* place, size_t slice) {
    KEEL_ASSERT(slice < WINDOW_SLICES && place->units > SLICE_UNITS);
    struct window* window = place->window;
    uint64_t word = atomic_get_acquire(shared_at(window, slice));
    if (!has_room(word, false)) {
        room_remove(window, slice, false);
        return false;
    }
    size_t end = slice * SLICE_UNITS + share_of(word).start;
    if (end < place->units) return false;
    place->start = end - place->units;
    place->joins_behind = 0;
    place->joins_before = word;
    struct slices whole = place_slices(place);
    return free_from(window, whole.first, whole.count) == whole.count;
}

// --- Taking a place ------------------------------------------------------------------------------

static bool place_join_behind(const struct place* place) {
    KEEL_ASSERT(place->joins_behind == 0 || has_room(place->joins_behind, true));
    if (place->joins_behind == 0) return true;
    struct share share = share_of(place->joins_behind);
    share.start = share.end;
    return share_join(place->window, place->start / SLICE_UNITS, place->joins_behind, share);
}

static bool place_join_before(const struct place* place) {
    KEEL_ASSERT(place->joins_before == 0 || has_room(place->joins_before, false));
    if (place->joins_before == 0) return true;
    size_t end = place->start + place->units;
    struct share share = share_of(place->joins_before);
    share.end = (unsigned)(end % SLICE_UNITS); // not 0, or the room would not be needed
    return share_join(place->window, end / SLICE_UNITS, place->joins_before, share);
}

static void leave_behind(const struct place* place) {
    size_t slice = place->start / SLICE_UNITS;
    if (place->joins_behind != 0 && share_leave(place->window, slice, false, true))
        range_give(place->window, slice, 1);
}

static void leave_before(const struct place* place) {
    size_t slice = (place->start + place->units) / SLICE_UNITS;
    if (place->joins_before != 0 && share_leave(place->window, slice, true, true))
        range_give(place->window, slice, 1);
}

// Address of the slice with the room that was made last behind a block; 0: none yet. Where many
// gaps are too small, a bounded search does not get as far as the end of the last block.
static atomic_word last_room;

// The slices that the block uses in part, and that it has not joined, get a word.
static void place_begin_shares(const struct place* place, bool zero) {
    KEEL_ASSERT(place->start + place->units <= WINDOW_SLICES * SLICE_UNITS);
    size_t end = place->start + place->units;
    unsigned first = (unsigned)(place->start % SLICE_UNITS);
    unsigned last = (unsigned)(end % SLICE_UNITS);
    if (first != 0 && place->joins_behind == 0)
        share_begin(place->window, place->start / SLICE_UNITS, (struct share){0, first, zero});
    if (last == 0 || place->joins_before != 0) return;
    share_begin(place->window, end / SLICE_UNITS, (struct share){last, 0, zero});
    atomic_set(&last_room, (uintptr_t)place->window->base + end / SLICE_UNITS * SLICE_BYTES);
}

// Packed blocks take slices without a search for a run, which would correct the sets.
static void place_unfile(struct window* window, struct slices taken) {
    for (unsigned i = 0; i < taken.count;) {
        size_t slice = taken.first + i;
        superblock_unfile_taken(window, (unsigned)(slice / SUPERBLOCK_SLICES));
        i += (unsigned)(SUPERBLOCK_SLICES - slice % SUPERBLOCK_SLICES);
    }
}

static struct run place_take(const struct place* place) {
    struct slices whole = place_slices(place);
    struct run run;
    unsigned failed;
    if (!place_join_behind(place)) return packed_none;
    if (!place_join_before(place)) {
        leave_behind(place);
        return packed_none;
    }
    if (!range_take(place->window, whole.first, whole.count, &run, &failed)) {
        leave_before(place);
        leave_behind(place);
        return packed_none;
    }
    place_unfile(place->window, whole);
    place_begin_shares(place, run.zero);
    if (place->joins_behind != 0) run.zero &= share_of(place->joins_behind).zero;
    if (place->joins_before != 0) run.zero &= share_of(place->joins_before).zero;
    count_event(EVENT_SLICES_TAKEN, whole.count);
    if (!run.warm) (void)atomic_add(&slice_counts.narrow_missed, whole.count);
    return (struct run){place->window->base + place->start * PACKED_UNIT, run.zero, false, 0};
}

// --- Searching -----------------------------------------------------------------------------------

// The slices of the superblock with room, next to which enough slices may be free. Where those may
// be in the next superblock, or in the one before, a slice counts.
static uint64_t rooms_likely(struct window* window, unsigned index, size_t units, bool behind) {
    KEEL_ASSERT(index < WINDOW_SUPERBLOCKS && units > SLICE_UNITS);
    uint64_t rooms = atomic_get_ordered(rooms_of(window, index, behind));
    if (rooms == 0) return 0;
    uint64_t free = atomic_get(&window->superblocks[index].free);
    // At most all but a unit of two further slices is room.
    unsigned least =
        units <= 2 * (SLICE_UNITS - 1)
            ? 0
            : (unsigned)((units - 2 * (SLICE_UNITS - 1) + SLICE_UNITS - 1) / SLICE_UNITS);
    if (least == 0 || least >= SUPERBLOCK_SLICES) return rooms;
    uint64_t starts = bit_runs(free, least);
    return behind ? rooms & (starts >> 1 | ~UINT64_C(0) << (SUPERBLOCK_SLICES - 1 - least))
                  : rooms & (starts << least | bit_range(0, least));
}

// What a search may still look at.
struct room_search {
    size_t units;
    unsigned superblocks;
    unsigned rooms; // of each superblock, on each side
};

static struct run superblock_take_room(struct window* window, unsigned index,
                                       const struct room_search* search, bool behind) {
    KEEL_ASSERT(search->rooms > 0);
    struct place place = {.window = window, .units = search->units};
    uint64_t rooms = rooms_likely(window, index, search->units, behind);
    for (unsigned looks = 0; rooms != 0 && looks < search->rooms; looks++, rooms &= rooms - 1) {
        size_t slice = (size_t)index * SUPERBLOCK_SLICES + bit_lowest(rooms);
        if (!(behind ? place_behind(&place, slice) : place_before(&place, slice))) continue;
        struct run run = place_take(&place);
        if (run.start != NULL) return run;
    }
    return packed_none;
}

static struct run window_take_room(struct window* window, struct room_search* search) {
    unsigned index = 0;
    for (; search->superblocks > 0; search->superblocks--, index++) {
        index = index_set_next(window_set(window, SET_ROOM), index);
        if (index >= WINDOW_SUPERBLOCKS) break;
        // Room before a block first: it is in a gap, while that behind one may be in open space.
        struct run run = superblock_take_room(window, index, search, false);
        if (run.start == NULL) run = superblock_take_room(window, index, search, true);
        if (run.start != NULL) return run;
        superblock_correct_room(window, index);
    }
    return packed_none;
}

static struct run room_take(size_t units, bool everywhere) {
    struct room_search search = {units, everywhere ? UINT_MAX : PACKED_PROBES,
                                 everywhere ? UINT_MAX : PACKED_ROOMS};
    unsigned number = 0;
    for (unsigned look = 0; everywhere || look < PACKED_WINDOWS; look++, number++) {
        struct window* window = window_next(partition_now(), SET_ROOM, &number);
        if (window == NULL) break;
        struct run run = window_take_room(window, &search);
        if (run.start != NULL) return run;
    }
    return packed_none;
}

static struct run last_room_take(size_t units) {
    uintptr_t address = atomic_get(&last_room);
    if (address == 0) return packed_none;
    struct place place = {.window = window_find((void*)address), .units = units};
    KEEL_ASSERT(place.window != NULL);
    size_t slice = (address - (uintptr_t)place.window->base) / SLICE_BYTES;
    return place_behind(&place, slice) ? place_take(&place) : packed_none;
}

// Takes whole slices; the last one has room behind the block.
static struct run whole_take(size_t units, bool everywhere) {
    KEEL_ASSERT(units > SLICE_UNITS);
    unsigned slices = (unsigned)((units + SLICE_UNITS - 1) / SLICE_UNITS);
    struct run run = run_allocate_mapped(slices, everywhere);
    if (run.start == NULL) return run;
    struct window* window = window_find(run.start);
    struct place place = {.window = window, .units = units};
    place.start = (size_t)(run.start - window->base) / PACKED_UNIT;
    place_begin_shares(&place, run.zero);
    return (struct run){run.start, run.zero, false, 0};
}

struct run packed_allocate(size_t bytes) {
    KEEL_ASSERT(bytes % PACKED_UNIT == 0);
    size_t units = bytes / PACKED_UNIT;
    KEEL_ASSERT(units > SLICE_UNITS);
    struct run run;
    for (unsigned round = 0; round < 3; round++) {
        run = room_take(units, false);
        if (run.start == NULL) run = last_room_take(units);
        if (run.start == NULL) run = whole_take(units, false);
        if (run.start != NULL) return run;
        if (!window_grow(1) && !run_open_closed()) break;
    }
    run = room_take(units, true);
    return run.start != NULL ? run : whole_take(units, true);
}

void packed_release(char* start, size_t bytes) {
    KEEL_ASSERT((uintptr_t)start % PACKED_UNIT == 0 && bytes % PACKED_UNIT == 0);
    KEEL_ASSERT(bytes > SLICE_BYTES && window_find(start) != NULL);
    struct window* window = window_find(start);
    size_t first = (size_t)(start - window->base) / PACKED_UNIT;
    size_t end = first + bytes / PACKED_UNIT;
    // A slice that has another user stays, with room.
    bool keeps_first =
        first % SLICE_UNITS != 0 && !share_leave(window, first / SLICE_UNITS, false, false);
    bool keeps_last =
        end % SLICE_UNITS != 0 && !share_leave(window, end / SLICE_UNITS, true, false);
    size_t slice = first / SLICE_UNITS + keeps_first;
    size_t slices_end = (end + SLICE_UNITS - 1) / SLICE_UNITS - keeps_last;
    KEEL_ASSERT(slices_end >= slice);
    range_give(window, slice, (unsigned)(slices_end - slice));
}

bool packed_check(struct window* window, size_t slice) {
    uint64_t word = atomic_get(shared_at(window, slice));
    unsigned superblock = (unsigned)(slice / SUPERBLOCK_SLICES);
    uint64_t bit = UINT64_C(1) << (slice % SUPERBLOCK_SLICES);
    if (word == 0) return true;
    if ((atomic_get(&window->superblocks[superblock].free) & bit) != 0) return false;
    struct share share = share_of(word);
    if (share.start != 0 && share.end > share.start) return false;
    if (share.start != 0 && share.end != 0) return true;
    if ((atomic_get(rooms_of(window, superblock, share.end != 0)) & bit) == 0) return false;
    return (atomic_get(&window_set(window, SET_ROOM)->words[superblock / 64]) >> (superblock % 64) &
            1) != 0;
}

#include "allocator/slices/fresh.h"
#include "allocator/slices/reserve.h"
#include "allocator/slices/window.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "os/memory.h"

#define HUGE_BYTES (HUGE_SLICES * SLICE_BYTES)
#define LOOK_PAGES 256u // of the front, in one system call

enum finding { FOUND_NOTHING, FOUND_FILLED, FOUND_SCATTERED };

static struct {
    atomic_word start; // 0: no block
    atomic_word bytes;
    atomic_bits begun_ms; // 0: the keeper has not seen it yet
    atomic_state memory;  // enum fresh_memory
} places[FRESH_PLACES];
static atomic_signed places_used; // their number
static atomic_state waits;        // a block has begun since the last look
static atomic_state is_looked_at; // a keeper looks at the places
static atomic_state streak;       // blocks in succession that were filled
static atomic_state doubted;      // a block was not filled, and none has been since
static atomic_state is_unsure;    // only blocks with huge pages have been seen to be filled
static atomic_state probe_draws;  // blocks below FRESH_PROVEN_BYTES since the last probe
static atomic_word probe;         // the probe that has not been judged yet; 0: none
static atomic_state newest;       // the place that was filled last

bool fresh_is_seen(void) {
    return atomic_get(&streak) >= FRESH_STREAK;
}

bool fresh_is_expected(size_t bytes) {
    if (bytes < FRESH_BYTES_MIN || !fresh_is_seen()) return false;
    if (atomic_get(&is_looked_at) == 0) return false;
    return bytes >= FRESH_PROVEN_BYTES || atomic_get(&probe) == 0;
}

bool fresh_is_unknown(void) {
    return !fresh_is_seen() && atomic_get(&doubted) == 0;
}

bool fresh_affords_unknown(size_t bytes) {
    if (bytes < FRESH_BYTES_MIN || bytes > FRESH_UNKNOWN_BYTES_MAX) return false;
    return fresh_is_unknown() && reserve_affords_unknown((bytes + SLICE_BYTES - 1) / SLICE_BYTES);
}

// Threads may draw the same number: then there are two probes, of which one is judged.
static bool probe_is_due(size_t bytes) {
    if (atomic_get(&is_unsure) != 0) return atomic_get(&probe) == 0;
    if (bytes >= FRESH_PROVEN_BYTES) return false;
    uint32_t draws = atomic_get(&probe_draws) + 1;
    atomic_set(&probe_draws, draws < FRESH_PROBE_DRAWS ? draws : 0);
    return draws >= FRESH_PROBE_DRAWS;
}

static bool has_huge_pages(enum fresh_memory memory) {
    return memory == FRESH_HUGE || memory == FRESH_UNKNOWN;
}

char* fresh_map(size_t bytes, size_t alignment, size_t* mapped, enum fresh_memory* memory) {
    *mapped = bytes;
    bool expected = fresh_is_expected(bytes);
    *memory = expected ? FRESH_HUGE : FRESH_UNKNOWN;
    if (!expected && !fresh_affords_unknown(bytes)) *memory = FRESH_MAPPING;
    if (expected && probe_is_due(bytes)) *memory = FRESH_PROBE;
    if (!has_huge_pages(*memory)) return os_map(bytes, alignment);
    // The system aligns a mapping of whole huge pages to them by itself.
    size_t whole = round_up(bytes, HUGE_BYTES);
    char* start = os_map(whole, alignment);
    if (start == NULL) {
        *memory = FRESH_MAPPING;
        return os_map(bytes, alignment);
    }
    os_prefer_huge_pages(start, whole);
    *mapped = whole;
    return start;
}

void fresh_begin(char* start, size_t bytes, enum fresh_memory memory) {
    if (bytes < FRESH_BYTES_MIN || (has_huge_pages(memory) && bytes < FRESH_PROVEN_BYTES)) return;
    for (unsigned i = 0; i < FRESH_PLACES; i++) {
        uintptr_t expected = 0;
        if (atomic_get(&places[i].start) != 0) continue;
        if (!atomic_try_word(&places[i].start, &expected, (uintptr_t)start)) continue;
        (void)atomic_add(&places_used, 1);
        atomic_set(&places[i].begun_ms, 0);
        if (memory == FRESH_PROBE) atomic_set(&probe, (uintptr_t)start);
        atomic_set(&places[i].memory, memory);
        atomic_set(&places[i].bytes, bytes);
        atomic_set(&newest, i);
        atomic_set_release(&waits, 1);
        return;
    }
}

static void place_clear(unsigned index, uintptr_t start) {
    if (!atomic_try_word(&places[index].start, &start, 0)) return;
    (void)atomic_sub(&places_used, 1);
    atomic_set(&places[index].bytes, 0);
    if (atomic_get(&probe) == start) atomic_set(&probe, 0);
}

static bool all_resident(char* start, size_t bytes) {
    unsigned char resident[LOOK_PAGES];
    size_t unit = os_page_bytes();
    for (size_t done = 0; done < bytes;) {
        size_t here = bytes - done < LOOK_PAGES * unit ? bytes - done : LOOK_PAGES * unit;
        if (!os_resident(start + done, here, resident)) return false;
        for (size_t i = 0; i < here / unit; i++) {
            if ((resident[i] & 1) == 0) return false;
        }
        done += here;
    }
    return true;
}

static const char* sample(const char* start, size_t bytes, unsigned index) {
    return start + bytes / (FRESH_SAMPLES + 1) * (index + 1);
}

static unsigned resident_behind(const char* start, size_t bytes) {
    unsigned behind = 0;
    for (unsigned i = 0; i < FRESH_SAMPLES; i++)
        behind += os_page_is_resident(sample(start, bytes, i));
    return behind;
}

// From the end on: while the program has not filled it, one call answers.
static bool is_filled(const char* start, size_t bytes) {
    unsigned left = FRESH_SAMPLES;
    while (left > 0 && os_page_is_resident(sample(start, bytes, left - 1))) left--;
    return left == 0;
}

// The front shows what the program fills if small pages were not resident before. Of a block that
// nobody expected to be filled, and has huge pages, one touch makes all of the front resident. Of a
// run of slices, some may have been resident.
static bool front_shows(enum fresh_memory memory) {
    return memory != FRESH_UNKNOWN && memory != FRESH_SLICES;
}

static enum finding look(char* start, size_t bytes, enum fresh_memory memory) {
    unsigned behind = resident_behind(start, bytes);
    size_t front = bytes / 64 < FRESH_FRONT ? FRESH_FRONT : bytes / 64;
    // The last page of the front first: while it is not touched, one call answers.
    bool filled = (front_shows(memory) || behind == FRESH_SAMPLES) &&
                  os_page_is_resident(start + front - 1) &&
                  all_resident(start, round_down(front, os_page_bytes()));
    if (filled) return FOUND_FILLED; // wholly, if `behind` are resident too
    return behind > 1 ? FOUND_SCATTERED : FOUND_NOTHING;
}

static void count_filled(enum fresh_memory memory, uint32_t blocks) {
    uint32_t now = atomic_get(&streak);
    if (memory == FRESH_UNKNOWN && now < FRESH_STREAK) atomic_set(&is_unsure, 1);
    if (memory != FRESH_UNKNOWN) atomic_set(&is_unsure, 0);
    if (now < FRESH_STREAK)
        atomic_set(&streak, now + blocks < FRESH_STREAK ? now + blocks : FRESH_STREAK);
    atomic_set(&doubted, 0);
}

// A block that is filled to its end proves as much as FRESH_STREAK blocks of which only the front
// was seen.
static bool proves(const char* start, unsigned index) {
    size_t bytes = atomic_get(&places[index].bytes);
    // Without a keeper nobody would see that the program fills its blocks no more.
    if (bytes == 0 || atomic_get(&is_looked_at) == 0 || !is_filled(start, bytes)) return false;
    count_filled((enum fresh_memory)atomic_get(&places[index].memory), FRESH_STREAK);
    return true;
}

void fresh_learn(void) {
    if (atomic_get(&places_used) == 0) return;
    bool sure = atomic_get(&is_unsure) == 0 && atomic_get(&probe) == 0;
    if (fresh_is_seen() && sure) return;
    unsigned index = atomic_get(&newest);
    uintptr_t start = atomic_get_acquire(&places[index].start);
    if (start != 0 && proves((const char*)start, index)) place_clear(index, start);
}

bool fresh_doubles(const char* start, size_t bytes, size_t bytes_after) {
    if (bytes < FRESH_BYTES_MIN || bytes_after < bytes + bytes / 2) return false;
    return is_filled(start, bytes);
}

void fresh_end(const char* start) {
    if (atomic_get(&places_used) == 0) return;
    // A probe that nobody has judged: the next block is one again.
    if (atomic_get(&probe) == (uintptr_t)start) atomic_set(&probe_draws, FRESH_PROBE_DRAWS);
    for (unsigned i = 0; i < FRESH_PLACES; i++) {
        if (atomic_get(&places[i].start) != (uintptr_t)start) continue;
        // The block ends before it has been judged: this thread looks.
        if (!fresh_is_seen()) (void)proves(start, i);
        place_clear(i, (uintptr_t)start);
    }
}

static void place_look(unsigned index, uint64_t now_ms) {
    uintptr_t start = atomic_get_acquire(&places[index].start);
    size_t bytes = atomic_get(&places[index].bytes);
    enum fresh_memory memory = (enum fresh_memory)atomic_get(&places[index].memory);
    if (start == 0 || bytes == 0) return;
    uint64_t begun_ms = atomic_get(&places[index].begun_ms);
    if (begun_ms == 0) atomic_set(&places[index].begun_ms, begun_ms = now_ms);
    enum finding finding = look((char*)start, bytes, memory);
    if (finding == FOUND_FILLED) {
        if (memory == FRESH_MAPPING || memory == FRESH_PROBE)
            os_prefer_huge_pages((void*)start, bytes);
        count_filled(memory, 1);
    }
    bool late = now_ms - begun_ms >= FRESH_LOOK_MS;
    bool surely = finding == FOUND_FILLED || (finding == FOUND_SCATTERED && front_shows(memory));
    if (!surely && !late) return;
    // Parts of slices may have been resident before.
    bool unknown = finding == FOUND_SCATTERED && memory == FRESH_SLICES;
    if (finding != FOUND_FILLED && !unknown) {
        atomic_set(&streak, 0);
        atomic_set(&doubted, 1);
        if (has_huge_pages(memory)) os_forbid_huge_pages((void*)start, bytes);
    }
    place_clear(index, start);
}

void fresh_expect_looks(void) {
    atomic_set(&is_looked_at, 1);
}

void fresh_forget(void) {
    atomic_set(&is_looked_at, 0);
    atomic_set(&streak, 0);
    atomic_set(&probe, 0);
}

bool fresh_waits(void) {
    return atomic_get(&waits) != 0;
}

bool fresh_look(uint64_t now_ms) {
    // Even if the block has ended since: otherwise the keeper would not sleep.
    if (atomic_get(&waits) != 0) (void)atomic_swap(&waits, 0);
    if (atomic_get(&places_used) == 0) return false;
    for (unsigned i = 0; i < FRESH_PLACES; i++) place_look(i, now_ms);
    return atomic_get(&places_used) != 0;
}

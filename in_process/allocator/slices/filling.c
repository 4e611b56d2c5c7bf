#include "allocator/slices/filling.h"
#include "base/atomic.h"
#include "os/memory.h"

static struct {
    atomic_word start; // 0: no block
    atomic_word bytes;
    atomic_state looks;
} places[FILLING_PLACES];
static atomic_state judged; // blocks, at most FILLING_JUDGED
static atomic_state part;   // of them that was filled, in 256ths
static atomic_state draws;  // units and probes since the last probe

// How many of SAMPLES pages are touched: those behind one, three and seven eighths of the block.
// The front counts for more: most blocks that are filled in part are filled from the start on.
#define SAMPLES 3u
static unsigned filled_samples(const char* start, size_t bytes) {
    unsigned filled = 0;
    for (unsigned i = 0; i < SAMPLES; i++)
        filled += os_page_is_resident(start + bytes / 8 * ((2u << i) - 1));
    return filled;
}

static void judge(unsigned filled) {
    uint32_t blocks = atomic_get(&judged);
    uint32_t here = 256 * filled / SAMPLES;
    atomic_set(&part, blocks == 0 ? here : (atomic_get(&part) + here) / 2);
    if (blocks < FILLING_JUDGED) atomic_set(&judged, blocks + 1);
}

static void look(unsigned index) {
    uintptr_t start = atomic_get_acquire(&places[index].start);
    if (start == 0) return;
    unsigned filled = filled_samples((const char*)start, atomic_get(&places[index].bytes));
    uint32_t looks = atomic_get(&places[index].looks) + 1;
    atomic_set(&places[index].looks, looks);
    if (filled < SAMPLES && looks < FILLING_LOOKS) return;
    if (!atomic_try_word(&places[index].start, &start, 0)) return; // another thread was faster
    judge(filled);
}

bool filling_is_unknown(void) {
    uint32_t blocks = atomic_get(&judged);
    return blocks == 0 || (blocks < FILLING_JUDGED && atomic_get(&part) >= FILLING_PART);
}

enum filling filling_of_next(void) {
    for (unsigned i = 0; i < FILLING_PLACES; i++) look(i);
    uint32_t filled = atomic_get(&part);
    if (filling_is_unknown()) return FILLING_UNKNOWN;
    if (filled < FILLING_PART) return FILLING_DOUBTED;
    uint32_t interval = filled < FILLING_PART_SURE ? FILLING_PROBE_DRAWS : FILLING_PROBE_DRAWS_MAX;
    uint32_t drawn = atomic_get(&draws) + 1;
    atomic_set(&draws, drawn < interval ? drawn : 0);
    return drawn < interval ? FILLING_EXPECTED : FILLING_DOUBTED;
}

bool filling_is_seen(void) {
    return atomic_get(&judged) >= FILLING_JUDGED && atomic_get(&part) >= FILLING_PART_NONE;
}

// The size is written before the place is given a start: until then no thread reads it.
void filling_watch(char* start, size_t bytes) {
    for (unsigned i = 0; i < FILLING_PLACES; i++) {
        uintptr_t expected = 0;
        if (atomic_get(&places[i].start) != 0) continue;
        atomic_set(&places[i].bytes, bytes);
        atomic_set(&places[i].looks, 0);
        if (atomic_try_word(&places[i].start, &expected, (uintptr_t)start)) return;
    }
}

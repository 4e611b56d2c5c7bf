#include "allocator/slices/filling.h"
#include "base/atomic.h"
#include "os/memory.h"

static struct {
    atomic_word start; // 0: no block
    atomic_word bytes;
    atomic_state looks;
} places[FILLING_PLACES];
static atomic_state streak; // blocks in succession that were filled, at most STREAK_MAX
static atomic_state draws;  // units and probes since the last probe

#define DOUBLINGS 1u // from FILLING_PROBE_DRAWS to FILLING_PROBE_DRAWS_MAX
#define STREAK_MAX (FILLING_STREAK + DOUBLINGS)

_Static_assert(FILLING_PROBE_DRAWS << DOUBLINGS == FILLING_PROBE_DRAWS_MAX, "doubled so often");

// Looks at pages in the first quarter, in the middle and at the end.
static bool is_filled(const char* start, size_t bytes) {
    return os_page_is_resident(start + bytes - 1) && os_page_is_resident(start + bytes / 2) &&
           os_page_is_resident(start + bytes / 4);
}

static void look(unsigned index) {
    uintptr_t start = atomic_get_acquire(&places[index].start);
    if (start == 0) return;
    bool filled = is_filled((const char*)start, atomic_get(&places[index].bytes));
    uint32_t looks = atomic_get(&places[index].looks) + 1;
    atomic_set(&places[index].looks, looks);
    if (!filled && looks < FILLING_LOOKS) return;
    if (!atomic_try_word(&places[index].start, &start, 0)) return; // another thread was faster
    uint32_t before = atomic_get(&streak);
    atomic_set(&streak, !filled ? 0 : before < STREAK_MAX ? before + 1 : before);
}

bool filling_is_expected(void) {
    for (unsigned i = 0; i < FILLING_PLACES; i++) look(i);
    uint32_t filled = atomic_get(&streak);
    if (filled < FILLING_STREAK) return false;
    uint32_t interval = FILLING_PROBE_DRAWS << (filled - FILLING_STREAK);
    uint32_t drawn = atomic_get(&draws) + 1;
    atomic_set(&draws, drawn < interval ? drawn : 0);
    return drawn < interval;
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

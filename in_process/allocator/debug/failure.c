#include "allocator/debug/failure.h"
#include "allocator/debug/settings.h"
#include "allocator/debug/site.h"
#include "base/atomic.h"
#include "base/random.h"

#define MILLION 1000000u

static atomic_state allowed;
static atomic_bits candidates; // allocations of a size and at a site that may fail
static atomic_bits failed;

void failure_allow(void) {
    atomic_set(&allowed, 1);
}

// The choice depends on the seed and the allocation's index alone, so that a run can be repeated.
static bool is_chosen(uint64_t index) {
    uint64_t probability = setting(SETTING_FAIL_PROBABILITY), every = setting(SETTING_FAIL_EVERY);
    uint64_t state = setting(SETTING_FAIL_SEED) ^ index * UINT64_C(0xd1342543de82ef95);
    if (probability == 0 && every == 0) return true;
    if (every != 0 && index % every == 0) return true;
    return random_next(&state) % MILLION < probability;
}

bool failure_is_due(size_t size) {
    if (!settings_fail || atomic_get(&allowed) == 0) return false;
    if (size < setting(SETTING_FAIL_MIN) || size > setting(SETTING_FAIL_MAX)) return false;
    if (site_excludes_caller()) return false;
    uint64_t index = atomic_add(&candidates, 1) + 1;
    if (index <= setting(SETTING_FAIL_AFTER)) return false;
    if (!is_chosen(index - setting(SETTING_FAIL_AFTER))) return false;
    uint64_t most = setting(SETTING_FAIL_COUNT);
    return most == 0 || atomic_add(&failed, 1) < most;
}

#include "allocator/arena/limit.h"
#include "allocator/arena/jumbo.h"
#include "allocator/arena/region.h"
#include "allocator/arena/run.h"
#include "base/options.h"

size_t limit_held_bytes(void) {
    return (run_live_slices() + region_live_slices()) * SLICE_BYTES + jumbo_live_bytes();
}

bool limit_admits(size_t bytes) {
    int64_t limit = option_get(OPTION_LIMIT);
    if (KEEL_LIKELY(limit <= 0)) return true;
    size_t held = limit_held_bytes();
    return held <= (uint64_t)limit && bytes <= (uint64_t)limit - held;
}

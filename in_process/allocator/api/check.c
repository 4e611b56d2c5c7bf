#include "allocator/api/check.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/guarded/guarded.h"
#include "allocator/heap/pool.h"
#include "allocator/keeper/keeper.h"
#include "allocator/large/large.h"
#include "allocator/page/size_class.h"
#include "allocator/space/arena.h"
#include "allocator/space/run.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
#include "base/panic.h"

static bool space_check(void) {
    return run_check() && arena_check();
}

static bool warm_check(void) {
    return policy_check() && fill_check() && mapping_cache_check() && reserve_check();
}

static bool heaps_check(void) {
    return heap_pool_check() && user_heap_check();
}

bool allocator_check(void) {
    if (!KEEL_CHECKS) return true;
    return space_check() && warm_check() && size_class_check() && large_quarantine_check() &&
           heaps_check() && guarded_check() && keeper_check();
}
